"""A process that has imported what workers need, and forks them: `python -m workers.prefork.server SOCKET IDLE`.

A worker or a short job that imports torch, transformers and Troupe itself needs 4 to 9 s of CPU time before it does anything. A
forked one needs none of it, and shares the memory of what was imported. The process imports only: it opens no device and starts no
thread, so that forks are safe. A worker keeps the program, arguments, environment, folder, process group, niceness and exit that
Ray gives it.
"""

import atexit
import gc
import importlib
import json
import os
import re
import runpy
import select
import shutil
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import psutil

from workers.prefork.client import FORKED

MODULES = (
    "workers.actors.environment_workers",
    "workers.actors.marl_worker",
    "workers.actors.policy_workers",
    "workers.actors.coordinator",
    "workers.actors.model_loading",
    "workers.actors.weights",
    "workers.jobs.context",
    "workers.jobs.language_models",
    "training_core.algorithms.hooks",
    "training_core.algorithms.losses",
    "training_core.llm.generation.base",
    "training_core.llm.generation.torch_engine",
    "training_core.llm.learning.learner",
    "training_core.llm.learning.policy_checkpoint",
    "training_core.marl.trainer",
    "training_core.llm.environments.registry",
    "transformers.models.llama.modeling_llama",
)
"""What actors and short jobs import. Not Ray, which reads the environment when it is imported."""
READ_AT_IMPORT = re.compile(
    r"HF_|HUGGINGFACE_|TRANSFORMERS_|TORCH|PYTORCH_|NCCL_|LD_|MALLOC_|PYTHON(?!PATH$|UNBUFFERED$|BREAKPOINT$)"
)
"""Variables that an interpreter or a library reads once: a worker that has other values of them is not forked.

Ray sets PYTHONBREAKPOINT in its workers, and so in short jobs, which are their children. `breakpoint` reads it at each call.
"""
OWN = ("training_core", "workers")
"""Packages of Troupe. A run may bring its own version of them, which a fork would not use."""
WORKER_PROGRAM = "default_worker.py"
"""Ray's program for Python workers."""
JOB_PROGRAM = ["-m", "workers.job"]
"""The program of short jobs."""
OF_SETUP = ("--language=", "--serialized-runtime-env-context=")
"""Arguments that Ray's own program for workers keeps to itself."""
STDIN = 0
"""A pipe from the node's process, which the kernel closes when that process ends."""


def main(path: str, idle: float) -> None:
    """Import at the first request or after `idle` seconds, then serve at the socket `path` until stdin is closed.

    Prints "listening" once requests are accepted, and "ready" once they are answered.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(200)
        report("listening")
        select.select([listener.fileno(), STDIN], [], [], idle)
        environment = dict(os.environ)
        # Without it a library that counts GPUs opens the driver, which forks cannot use.
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        for name in MODULES:
            if not closed(STDIN):
                importlib.import_module(name)
        build_configs()
        gc.collect()
        gc.freeze()  # collections in workers do not copy the pages of what was imported
        report("ready")
        added = {name: value for name, value in os.environ.items() if name not in environment}
        served = serve(listener, Imported(environment, own_files(), added))
    if served is None:
        # The node's process may have been killed: it removes nothing then.
        shutil.rmtree(Path(path).parent, ignore_errors=True)
    else:
        request, connection = served
        run(request, added, connection)


def build_configs() -> None:
    """Build the validators of both kinds of configs, which forks would otherwise do on use, each for itself."""
    from training_core.config.marl import MarlConfig
    from training_core.config.run import RunConfig

    for config in (RunConfig, MarlConfig):
        config.model_rebuild()


@dataclass(frozen=True)
class Imported:
    """What the imports depended on."""

    environment: Mapping[str, str]
    """Before them: they set variables themselves."""
    files: Mapping[Path, int]
    """Modules of OWN, and when they were last changed (ns)."""
    added: Mapping[str, str] = field(default_factory=dict)
    """Variables that the imports have set. Forked workers have them, and so have the processes that they start."""

    def has(self, name: str, value: str | None) -> bool:
        """Whether the imports read this value of a variable; None if it was not set."""
        return value == self.environment.get(name) or (value is not None and value == self.added.get(name))

    def changed(self) -> Path | None:
        """A module that has been edited since; None where there is none."""
        return next((path for path, time in self.files.items() if changed_at(path) != time), None)


def own_files() -> dict[Path, int]:
    """The files of what was imported of OWN."""
    names = [name for name in sys.modules if name.partition(".")[0] in OWN]
    paths = [Path(file) for name in names if (file := getattr(sys.modules[name], "__file__", None))]
    return {path: changed_at(path) for path in paths}


def changed_at(path: Path) -> int:
    """When a file was last changed, in ns; 0 where it is gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def report(state: str) -> None:
    """Write a line to the node's process, if it is still there."""
    with suppress(BrokenPipeError):
        os.write(1, f"{state}\n".encode())


def closed(descriptor: int) -> bool:
    """Whether the other end of a pipe that nothing is written to is closed."""
    return bool(select.select([descriptor], [], [], 0)[0])


def serve(listener: socket.socket, imported: Imported) -> tuple[dict[str, Any], int] | None:
    """Fork a process per request. Returns None once stdin is closed; in a forked process its request and connection's descriptor."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    while True:
        select.select([listener.fileno(), STDIN], [], [])
        if closed(STDIN):
            return None
        connection, _ = listener.accept()
        with connection:
            request, streams = receive(connection)
            try:
                if request is not None and accepted(request, imported) and os.fork() == 0:
                    return request, become(request, streams, connection)
            finally:
                for stream in streams:
                    os.close(stream)


def accepted(request: Mapping[str, Any], imported: Imported) -> bool:
    """Whether a worker can be forked; the node's log tells why not."""
    reason = refusal(request, imported)
    if reason:
        sys.stderr.write(f"A worker is not forked: {reason}.\n")
    return not reason


def receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """A request and its three streams; no request where the sender has gone."""
    streams: list[int] = []
    try:
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return json.loads(b"".join(parts)), list(streams)
    except (OSError, ValueError):
        return None, list(streams)


def refusal(request: Mapping[str, Any], imported: Imported) -> str:
    """Why a worker cannot be forked from this process; empty where it can."""
    context, program = parsed(request["arguments"])
    if (
        request["arguments"][:2] != JOB_PROGRAM
        and Path(program).name != WORKER_PROGRAM
        or context.get("override_worker_entrypoint")
    ):
        return "it runs another program"
    if context.get("command_prefix"):
        return "it is started by a command of its runtime environment"
    if context.get("py_executable") not in (None, sys.executable):
        return "it runs in another interpreter"
    wanted = expanded(request["environment"], context)
    for name in sorted({*wanted, *imported.environment}):
        if READ_AT_IMPORT.match(name) and not imported.has(name, wanted.get(name)):
            return f"{name} has another value"
    folder = next((folder for folder in search_path(wanted) if (Path(folder) / OWN[0]).is_dir()), None)
    if folder is not None and Path(folder).resolve() != Path(__file__).resolve().parents[2]:
        return f"its packages are those of {folder}"
    changed = imported.changed()
    return f"{changed} has changed since this node imported it; start the node again" if changed else ""


def parsed(arguments: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The runtime environment's context of a worker's arguments, and the path of its program."""
    context: dict[str, Any] = {}
    program = ""
    for word in arguments:
        name, _, value = word.partition("=")
        if name == "--serialized-runtime-env-context":
            context = json.loads(value or "{}")
        elif not word.startswith("-") and not program:
            program = word
    return context, program


def expanded(environment: Mapping[str, str], context: Mapping[str, Any]) -> dict[str, str]:
    """A worker's environment: the node's, with the variables of its runtime environment, as ray._private.utils.update_envs sets them.

    $NAME and ${NAME} are replaced by variables. An unknown $NAME stays, an unknown ${NAME} is removed.
    """
    result = dict(environment)
    for name, value in (context.get("env_vars") or {}).items():
        known = re.sub(
            r"\$(?:\{(\w+)\}|(\w+))", lambda match: result.get(match[1] or match[2], match[0]), value
        )
        result[name] = re.sub(r"\$\{[A-Z0-9_]+\}", "", known)
    return result


def search_path(environment: Mapping[str, str]) -> list[str]:
    """The folders of PYTHONPATH."""
    return [folder for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]


def become(request: Mapping[str, Any], streams: Sequence[int], connection: socket.socket) -> int:
    """Take the process group, niceness and streams of the process that was requested.

    Returns the descriptor of `connection`, which stays open until this process ends.
    """
    try:
        connection.sendall(FORKED)
    except OSError:
        os._exit(0)  # the sender has not waited
    descriptor = connection.detach()
    os.setpgid(0, 0)
    os.setpriority(os.PRIO_PROCESS, 0, max(request["niceness"], os.getpriority(os.PRIO_PROCESS, 0)))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return descriptor


def end_with(descriptor: int) -> None:
    """End this process and its children once the program that requested it has ended. Ray ends that program when a job is stopped."""
    ended = select.poll()
    # Only POLLHUP: the program has closed its direction after the request.
    ended.register(descriptor, 0)
    ended.poll()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.kill()
    os.kill(os.getpid(), signal.SIGTERM)


def run(request: Mapping[str, Any], added: Mapping[str, str], descriptor: int) -> NoReturn:
    """Run the requested program in this process, and end it as an interpreter would; the status is sent through `descriptor`.

    added: variables that the imports have set.
    """
    import numpy

    numpy.random.seed()  # a fork has the state of every other fork
    context, program = parsed(request["arguments"])
    before = search_path(os.environ)
    os.environ.clear()
    os.environ.update({**added, **expanded(request["environment"], context)})
    os.chdir(request["folder"])
    arguments: list[str] = request["arguments"]
    sys.argv = [word for word in arguments[arguments.index(program) :] if not word.startswith(OF_SETUP)]
    job = arguments[:2] == JOB_PROGRAM
    sys.path[:] = [
        request["folder"] if job else str(Path(program).parent),
        *search_path(os.environ),
        *(folder for folder in sys.path[1:] if folder not in before),
    ]
    status = 1
    try:
        if job:
            threading.Thread(target=end_with, args=(descriptor,), daemon=True).start()
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()  # disconnects from Ray; a full exit would wait for threads that a fork does not have
        sys.stdout.flush()
        sys.stderr.flush()
        with suppress(OSError):
            os.write(descriptor, bytes([status & 0xFF]))
        os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))

"""Workers of the tests' Ray cluster, forked from a process that has imported torch and transformers already.

A worker that imports them itself needs 9 s of CPU time before it does anything, and the tests start hundreds. A forked worker keeps the
program, arguments, environment, process group and exit of Ray's own workers. Ray's own start is tested where a run is a job
(launch/test_runs_as_jobs.py), where a driver starts its cluster itself, and on the whole stack (tests/end_to_end).
`python -m tests.workers.forking ADDRESS` serves until it is terminated.
"""

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.workers import ray_worker
from webapp.stack.processes import dies_with_parent

NOT_FOR_WORKERS = ("--language", "--serialized-runtime-env-context")
"""Arguments of Ray's own starter (ray/_private/workers/setup_worker.py). These tests use no environments of Ray."""


@contextmanager
def forked_workers() -> Iterator[None]:
    """A Ray node that is started inside this context forks its workers."""
    from ray._private import ray_constants

    with tempfile.TemporaryDirectory(prefix="forking-", dir="/tmp") as folder:
        address = f"{folder}/socket"
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.workers.forking", address],
            stdout=subprocess.PIPE,
            preexec_fn=dies_with_parent(),
        )
        assert server.stdout and server.stdout.readline(), "prints a line when it is ready"
        starter = ray_constants.SETUP_WORKER_FILENAME
        ray_constants.SETUP_WORKER_FILENAME = str(Path(ray_worker.__file__).resolve())
        os.environ[ray_worker.ADDRESS] = address
        try:
            yield
        finally:
            ray_constants.SETUP_WORKER_FILENAME = starter
            del os.environ[ray_worker.ADDRESS]
            server.kill()
            server.wait()
            server.stdout.close()


def serve(address: str) -> dict[str, Any]:
    """Forks a process per request. Returns in the forked process only, with the request."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(100)
        print("ready", flush=True)
        while True:
            line, _ = listening.accept()
            _, streams, _, _ = socket.recv_fds(line, 1, 3)
            received = b""
            while part := line.recv(65536):
                received += part
            if os.fork() == 0:
                os.setpgid(0, 0)
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                request: dict[str, Any] = json.loads(received)
                request["line"] = line  # open until this process ends
                return request
            line.close()
            for stream in streams:
                os.close(stream)


def work(request: dict[str, Any]) -> None:
    """Runs the worker's program in this process. Does not return."""
    import numpy

    numpy.random.seed()  # not the state that every other worker has
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = [word for word in request["arguments"] if not word.startswith(NOT_FOR_WORKERS)]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    status = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        atexit._run_exitfuncs()  # disconnects from Ray; an interpreter's full exit would wait for threads that a fork does not have
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Imports, then serves. The workers import Ray themselves: Ray reads the environment when it is imported."""
    from training_core.marl import trainer  # noqa: F401
    from workers.actors import marl_worker, router, sides  # noqa: F401

    assert "ray" not in sys.modules
    work(serve(sys.argv[1]))


if __name__ == "__main__":
    main()

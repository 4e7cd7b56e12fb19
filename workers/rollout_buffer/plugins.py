"""Generator plugins: Python files in a folder that define TASK_TYPE and run_rollout, and the processes that run them.

A rollout has its own process: `python -m workers.rollout_buffer.plugins PLUGIN.py`, with the request as one line on stdin.
stdin stays open as long as the service runs. When it closes, the rollout and all its child processes end.
"""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from training_core.errors import TroupeError
from workers.rollout_buffer.rules import HOOKS

ROOT = Path(__file__).resolve().parents[2]
BUILT_IN = Path(__file__).with_name("generators")
"""Plugins that ship with Troupe."""


class PluginFailure(TroupeError):
    """A plugin cannot be found or loaded."""


@dataclass(frozen=True)
class Plugin:
    """A file that generates records of one task type."""

    task_type: str
    path: Path
    run_rollout: Callable[[dict[str, Any]], None]
    hooks: dict[str, Callable[..., Any]]
    """The functions of Rules that it replaces."""


@dataclass(frozen=True)
class Plugins:
    """Plugins by task type, and the errors of files that cannot be loaded."""

    found: dict[str, Plugin]
    broken: dict[str, str]
    """File name -> error."""

    def get(self, task_type: str) -> Plugin:
        """The plugin of a task type. Raises PluginFailure, which lists the available ones."""
        if task_type in self.found:
            return self.found[task_type]
        known = ", ".join(sorted(self.found)) or "none"
        broken = "".join(f"; {name} cannot be loaded: {error}" for name, error in self.broken.items())
        raise PluginFailure(f"no generator has TASK_TYPE = {task_type!r}; there are {known}{broken}")


def find_plugins(folders: Iterable[Path]) -> Plugins:
    """All plugins in these folders; for equal task types the later folder's.

    Other files, and those whose names begin with an underscore, are helpers: plugins may import them by name.
    """
    plugins = Plugins({}, {})
    for folder in folders:
        if str(folder) not in sys.path and folder != BUILT_IN:
            sys.path.insert(0, str(folder))
        for path in sorted(folder.glob("*.py")):
            if not path.name.startswith("_"):
                _find(path, plugins)
    return plugins


def load_plugin(path: Path) -> Plugin | None:
    """The plugin in a file; None if the file is not a plugin. Raises what the file raises."""
    module = _load(path)
    task_type, run = getattr(module, "TASK_TYPE", None), getattr(module, "run_rollout", None)
    if not isinstance(task_type, str) or not callable(run):
        return None
    hooks = {name: getattr(module, name) for name in HOOKS if callable(getattr(module, name, None))}
    return Plugin(task_type, path, run, hooks)


def _find(path: Path, plugins: Plugins) -> None:
    try:
        plugin = load_plugin(path)
    except Exception as error:  # a user's file: the others still work
        plugins.broken[path.name] = f"{type(error).__name__}: {error}"
        return
    if plugin is not None:
        plugins.found[plugin.task_type] = plugin


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rollout_generators.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise PluginFailure(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class _Rollout:
    process: "subprocess.Popen[bytes]"
    log: Path
    task_type: str


class RolloutProcesses:
    """Starts, monitors and stops rollouts. Their logs are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, _Rollout] = {}

    def start(self, channel: str, plugin: Plugin, request: Mapping[str, Any]) -> None:
        """Run a plugin in the background, after stopping the channel's previous rollout."""
        self.end(channel)
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / f"rollout-{channel or 'default'}.log"
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "workers.rollout_buffer.plugins", str(plugin.path)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
            )
        assert process.stdin is not None
        process.stdin.write(orjson.dumps(request) + b"\n")
        process.stdin.flush()
        self._running[channel] = _Rollout(process, log, plugin.task_type)

    def state(self, channel: str) -> dict[str, Any]:
        """{state: none | running | finished | failed, task_type, error: the end of the log of a failed rollout}."""
        rollout = self._running.get(channel)
        if rollout is None:
            return {"state": "none", "task_type": "", "error": ""}
        status = rollout.process.poll()
        state = "running" if status is None else "failed" if status else "finished"
        error = f"exit status {status}; {_tail(rollout.log)}" if state == "failed" else ""
        return {"state": state, "task_type": rollout.task_type, "error": error}

    def end(self, channel: str) -> None:
        """Kill a channel's rollout and its child processes."""
        rollout = self._running.pop(channel, None)
        if rollout is None:
            return
        if rollout.process.stdin is not None:
            rollout.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):  # its process group has already ended
            os.killpg(rollout.process.pid, signal.SIGKILL)
        rollout.process.wait()

    def end_all(self) -> None:
        """Stop all rollouts."""
        for channel in list(self._running):
            self.end(channel)


def _tail(log: Path) -> str:
    """The last lines of a log and its path, for an error message."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"{' | '.join(lines[-3:])[-600:]} (all of it: {log})"


def main() -> int:
    """Run the plugin's run_rollout and return the exit status."""
    path = Path(sys.argv[1])
    request = orjson.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_service, daemon=True).start()
    find_plugins([path.parent])  # lets it import modules of its folder
    plugin = load_plugin(path)
    if plugin is None:
        sys.stderr.write(f"{path} has no TASK_TYPE and run_rollout\n")
        return 1
    plugin.run_rollout(request)
    return 0


def _end_with_service() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())

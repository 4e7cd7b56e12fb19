"""Running rollouts: at most one per channel, each in its own process with a log file."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from workers.rollout_buffer.plugins import Plugin

ROOT = Path(__file__).resolve().parents[2]


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
                [sys.executable, "-m", "workers.rollout_buffer.play", str(plugin.path)],
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

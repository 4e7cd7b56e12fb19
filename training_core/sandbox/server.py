"""A sandbox that stays up and runs one program after the other: putting one up takes longer than most programs."""

import atexit
import base64
import json
import os
import select
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from training_core.errors import SandboxFailure
from training_core.sandbox.bubblewrap import command, outer_filter, program_filter

_HARNESS = Path(__file__).with_name("harness.py")
_HELP = (
    "the sandbox for agents' code cannot be put up ({}); allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1; in a container: --security-opt seccomp=unconfined)"
)
_GRACE = 20.0
"""Seconds, on top of the program's own time, that a busy machine may need for an answer."""


class Sandbox:
    """One sandbox, put up when it is first needed and again when it was lost. For several threads, one at a time."""

    def __init__(self, disk_bytes: int) -> None:
        self._disk_bytes = disk_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self.close)

    def ask(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The harness's answer to a job, {"lines", "why"}. Raises SandboxFailure where no sandbox can be put up."""
        with self._lock:
            for attempt in (1, 2):
                process = self._up()
                answer = self._exchange(process, json.dumps(job).encode() + b"\n", seconds + _GRACE)
                if answer is not None:
                    return answer
                said = self._end()
                if said.startswith("bwrap:"):
                    raise SandboxFailure(_HELP.format(said))
                if attempt == 2:
                    break
        return {"lines": [], "why": "it took the sandbox down, or kept it busy"}

    def close(self) -> None:
        """End it. The next job puts up another one."""
        with self._lock:
            self._end()

    def _up(self) -> "subprocess.Popen[bytes]":
        alive = self._process is not None and self._process.poll() is None and self._owner == os.getpid()
        if not alive or self._process is None:
            self._end()
            self._process, self._owner = self._put_up(), os.getpid()
        return self._process

    def _put_up(self) -> "subprocess.Popen[bytes]":
        handle = os.memfd_create("filter")
        with os.fdopen(handle, "w+b") as rules:
            rules.write(outer_filter())
            rules.seek(0)
            process = subprocess.Popen(
                command(_HARNESS, handle, self._disk_bytes),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(handle,),
            )  # fmt: skip
        greeting = {"filter": base64.b64encode(program_filter()).decode()}
        _write(process, json.dumps(greeting).encode() + b"\n")
        return process

    def _exchange(
        self, process: "subprocess.Popen[bytes]", line: bytes, seconds: float
    ) -> dict[str, Any] | None:
        """Send a line, wait for one; None where the sandbox went away or does not answer."""
        if not _write(process, line):
            return None
        answer = _read_line(process, time.monotonic() + seconds)
        return json.loads(answer) if answer is not None else None

    def _end(self) -> str:
        """Take it down; what it had to complain of."""
        said = ""
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            said = self._process.communicate()[1].decode("utf-8", "replace").strip()[:2000]
        self._process = None
        return said


def _write(process: "subprocess.Popen[bytes]", line: bytes) -> bool:
    assert process.stdin is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
    except BrokenPipeError:
        return False
    return True


def _read_line(process: "subprocess.Popen[bytes]", deadline: float) -> bytes | None:
    """A whole line; None where it does not come in time, or ends before."""
    assert process.stdout is not None
    source, read = process.stdout.fileno(), bytearray()
    while not read.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            return None
        piece = os.read(source, 1 << 16)
        if not piece:
            return None
        read += piece
    return bytes(read)

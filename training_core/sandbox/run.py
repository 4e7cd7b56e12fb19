"""Run a program written by an agent on given inputs, in a sandbox with limits. The sandbox persists and runs one program after the other,
because starting one takes longer than most programs.
"""

import atexit
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from training_core.errors import SandboxFailure
from training_core.sandbox.bubblewrap import command, sandbox_filter
from training_core.sandbox.harness import WALL

_HARNESS = Path(__file__).with_name("harness.py")
_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_HELP = "allow user namespaces: " + (
    "start the container with --security-opt seccomp=unconfined"
    if any(mark.exists() for mark in _CONTAINER_MARKS)
    else "sysctl kernel.unprivileged_userns_clone=1"
)
_GRACE = 20.0
"""Additional seconds for an answer on a busy machine."""
Status = Literal["ok", "invalid", "error", "timeout", "output", "killed"]
_MIB = 1024**2


class Unanswered(Exception):
    """The sandbox gave no answer to a job; has the reason."""


class _OutOfTime(Exception):
    """The sandbox did not answer in time."""


class _Lost(Exception):
    """The sandbox ended before it answered."""


class Sandbox:
    """One sandbox, started on first use and again after it was lost. Thread-safe; runs one job at a time.

    If the harness may not create `namespaces`, a sandbox runs one program only, and each gets a new one.
    """

    def __init__(self, disk_bytes: int, *, namespaces: bool = True) -> None:
        self._disk_bytes = disk_bytes
        self._namespaces = namespaces
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self.close)

    def ask(self, job: dict[str, Any], seconds: float) -> list[dict[str, str]]:
        """The harness's answer to a job: the program's result on each input.

        A lost sandbox is started again once. A job that times out is not retried. Raises SandboxFailure if no sandbox
        can be started, Unanswered if it gives no answer.
        """
        line = json.dumps(job).encode() + b"\n"
        with self._lock:
            for _ in range(2):
                try:
                    return self._answer(line, seconds + _GRACE)
                except _OutOfTime:
                    self._end()
                    raise Unanswered("the sandbox did not answer in time") from None
                except _Lost:
                    output = self._end()
                    if output.startswith("bwrap:"):
                        raise SandboxFailure(
                            f"the sandbox for agents' code cannot be started ({output})", remedy=_HELP
                        ) from None
        raise Unanswered(f"the sandbox ended twice without an answer {output}".strip())

    def close(self) -> None:
        """Close the sandbox. The next job starts another one."""
        with self._lock:
            self._end()

    def _answer(self, line: bytes, seconds: float) -> list[dict[str, str]]:
        """Send a job and wait for its answer. Raises _OutOfTime, _Lost."""
        process = self._up()
        _write(process, line)
        answer: dict[str, Any] = json.loads(_read_line(process, time.monotonic() + seconds))
        if not answer["isolated"]:
            self._end()
        ran: list[dict[str, str]] = answer["ran"]
        return ran

    def _up(self) -> "subprocess.Popen[bytes]":
        alive = self._process is not None and self._process.poll() is None and self._owner == os.getpid()
        if not alive or self._process is None:
            self._end()
            self._process, self._owner = self._put_up(), os.getpid()
        return self._process

    def _put_up(self) -> "subprocess.Popen[bytes]":
        handle = os.memfd_create("filter")
        with os.fdopen(handle, "w+b") as rules:
            rules.write(sandbox_filter())
            rules.seek(0)
            return subprocess.Popen(
                command(_HARNESS, handle, self._disk_bytes, namespaces=self._namespaces),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(handle,),
            )  # fmt: skip

    def _end(self) -> str:
        """Stop the sandbox; return its error output."""
        output = ""
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            output = self._process.communicate()[1].decode("utf-8", "replace").strip()[:2000]
        self._process = None
        return output


def _write(process: "subprocess.Popen[bytes]", line: bytes) -> None:
    """Raises _Lost."""
    assert process.stdin is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
    except BrokenPipeError:
        raise _Lost from None


def _read_line(process: "subprocess.Popen[bytes]", deadline: float) -> bytes:
    """Read a whole line. Raises _OutOfTime if it does not arrive in time, _Lost if the sandbox ends first."""
    assert process.stdout is not None
    source, read = process.stdout.fileno(), bytearray()
    while not read.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            raise _OutOfTime
        piece = os.read(source, 1 << 16)
        if not piece:
            raise _Lost
        read += piece
    return bytes(read)


@dataclass(frozen=True)
class Limits:
    """Limits of a program, which has a single process."""

    test_seconds: float = 1.0
    """CPU time on one input in seconds; the wall time limit is five times as long."""
    cpu_seconds: int = 4
    """CPU time on all inputs together in seconds; the wall time limit is five times as long."""
    memory_mib: int = 256
    """Address space, including the interpreter."""
    disk_mib: int = 8
    """Files in /tmp, which is in memory, and the standard output."""
    output_characters: int = 10_000
    """Maximum output on one input."""


@dataclass(frozen=True)
class Ran:
    """The result of a program on one input."""

    status: Status
    """invalid: not valid Python; output: it wrote too much; killed: it ended before its result was complete, by a limit or by itself."""
    output: str
    """Its standard output."""
    error: str
    """Error in one line; empty when ok."""


_RAN = TypeAdapter(tuple[Ran, ...])


def run_program(program: str, inputs: Sequence[str], limits: Limits | None = None) -> list[Ran]:
    """Run a Python program once per standard input. Equal calls are cached, unless the sandbox gave no answer.

    Raises SandboxFailure if no sandbox can be started.
    """
    try:
        return list(_run(program, tuple(inputs), limits or Limits()))
    except Unanswered as why:
        return [Ran("killed", "", str(why))] * len(inputs)


@cache
def check_sandbox() -> None:
    """Raises SandboxFailure, with install instructions, if no sandbox can be started."""
    ran = run_program("print(input())", ["ready"])[0]
    if ran.output.strip() != "ready":
        raise SandboxFailure(f"the sandbox for agents' code does not work: {ran.error}")


@lru_cache(maxsize=4096)
def _run(program: str, inputs: tuple[str, ...], limits: Limits) -> tuple[Ran, ...]:
    job: dict[str, Any] = {
        "program": program,
        "inputs": inputs,
        "memory": limits.memory_mib * _MIB,
        "cpu_seconds": limits.cpu_seconds,
        "file_bytes": limits.disk_mib * _MIB,
        "test_seconds": limits.test_seconds,
        "output_characters": limits.output_characters,
    }
    ran = _sandbox(job["file_bytes"]).ask(job, WALL * limits.test_seconds * len(inputs))
    return _RAN.validate_python(ran)


@cache
def _sandbox(disk_bytes: int) -> Sandbox:
    return Sandbox(disk_bytes)

"""Runs inside the sandbox, by a bare interpreter: programs one after the other, each in a process of its own.

Reads a job a line, as JSON, from standard input and answers each with a line, {"lines", "why"}: what its process wrote,
and how it ended. The first line is {"filter"}, the system call filter that those processes put on; this one keeps the right
to fork. A program's process has no descriptor but its own pipe, cannot signal or trace this one, and never learns what output
is expected of it, so that one that meddles with its own process gains nothing by it.
"""

import base64
import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from types import CodeType
from typing import Any

WALL = 5
"""Seconds by the clock for each second of CPU time: a program that sleeps is woken too, one on a busy machine is not."""
STATUS_LIMIT = 97
"""Exit status of a process that could not be locked in."""
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


class _Timeout(BaseException):
    """The test's time is up. No Exception, so that a program's own handlers seldom catch it."""


def main() -> None:
    """Answer jobs until standard input ends."""
    rules = base64.b64decode(json.loads(sys.stdin.readline())["filter"])
    for line in sys.stdin:
        answer = _in_a_process(json.loads(line), rules)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        if not _cleared(Path("/tmp")):
            return  # what cannot be cleared away must not meet the next program: a new sandbox is put up


def _in_a_process(job: dict[str, Any], rules: bytes) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _lock_in(job, rules, writing)
            _run_all(job)
            os._exit(0)
        finally:
            os._exit(STATUS_LIMIT)
    os.close(writing)
    deadline = time.monotonic() + 2.0 + WALL * job["test_seconds"] * len(job["inputs"])
    written, why = _listen(reading, deadline, job["file_bytes"])
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return {
        "lines": written.decode("utf-8", "replace").splitlines(),
        "why": why or f"it was ended with status {os.waitstatus_to_exitcode(status)}",
    }


def _listen(reading: int, deadline: float, most: int) -> tuple[bytes, str]:
    """What the process writes, until it ends or must be ended, and why it must."""
    written = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([reading], [], [], left)[0]:
            break
        piece = os.read(reading, 1 << 16)
        if not piece:
            return bytes(written), ""
        written += piece
        if len(written) > most:
            return bytes(written), "it was ended for all that it wrote"
    return bytes(written), "it was ended when its time was up"


def _lock_in(job: dict[str, Any], rules: bytes, writing: int) -> None:
    """Make this process the program's: one descriptor, hard limits, the filter."""
    os.dup2(writing, 3)
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(4, 256)
    limits = {
        resource.RLIMIT_AS: job["memory"],
        resource.RLIMIT_CPU: job["cpu_seconds"],
        resource.RLIMIT_FSIZE: job["file_bytes"],
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
    }
    for name, amount in limits.items():
        resource.setrlimit(name, (amount, amount))
    signal.signal(signal.SIGALRM, _ring)
    signal.signal(signal.SIGPROF, _ring)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an error then, not the end
    _put_on(rules)


class _Program(ctypes.Structure):
    """struct sock_fprog: the filter's instructions, of 8 bytes each."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _put_on(rules: bytes) -> None:
    """Filter this process's system calls from here on. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(rules) // 8, rules)
    locked = libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    if not locked or libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the filter of system calls cannot be put on")


def _run_all(job: dict[str, Any]) -> None:
    """A line per input: {"status", "output", "error"}."""
    most = job["output_characters"]

    def tell(status: str, output: str, error: str) -> None:
        if len(output) > most:
            status, error = "output", f"wrote more than {most} characters"
        line = json.dumps({"status": status, "output": output[:most], "error": error[:500]}) + "\n"
        os.write(3, line.encode())

    try:
        code = compile(job["program"], "program.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        for _ in job["inputs"]:
            tell("invalid", "", f"{type(error).__name__}: {error}")
        return
    for given in job["inputs"]:
        tell(*_run(code, given, job["test_seconds"]))


def _run(code: CodeType, given: str, seconds: float) -> tuple[str, str, str]:
    """Status, output and error of the program on one input, in a fresh namespace."""
    said = _put_in_place(given)
    status, error = "ok", ""
    _set_timers(seconds)
    try:
        exec(code, {"__name__": "__main__"})
    except _Timeout:
        status, error = "timeout", f"ran longer than {seconds} s of CPU time"
    except SystemExit as ending:
        if ending.code not in (None, 0):
            status, error = "error", f"exit status {ending.code}"
    except BaseException as failure:
        status, error = "error", f"{type(failure).__name__}: {failure}"
    finally:
        _set_timers(0)
    return status, _written(said), error


def _put_in_place(given: str) -> int:
    """Standard input that holds this text, and an empty standard output; returns the file that collects it."""
    asked, said = os.memfd_create("input"), os.memfd_create("output")
    os.write(asked, given.encode("utf-8", "replace"))
    os.lseek(asked, 0, os.SEEK_SET)
    os.dup2(asked, 0)
    os.dup2(said, 1)
    os.close(asked)
    streams = ((0, "r"), (1, "w"), (2, "w"))
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False) for number, mode in streams
    )
    return said


def _written(said: int) -> str:
    """All that was written to standard output."""
    with contextlib.suppress(OSError, ValueError):  # the program closed it, or filled it
        sys.stdout.flush()
    os.lseek(said, 0, os.SEEK_SET)
    with os.fdopen(said, "rb") as file:
        return file.read().decode("utf-8", "replace")


def _set_timers(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WALL * seconds)


def _ring(number: int, frame: object) -> None:
    raise _Timeout


def _cleared(folder: Path) -> bool:
    """Whether a folder is empty, once what a program left there is gone."""
    for place in folder.iterdir():
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink()
    return not any(folder.iterdir())


if __name__ == "__main__":
    main()

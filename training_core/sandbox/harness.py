"""Runs inside the sandbox in a bare interpreter: one job after the other, each in separate namespaces.

    python harness.py FILTER DISK_BYTES          (FILTER: the programs' filter of system calls, BPF as base64)

The launcher forks a supervisor for each job and waits until it ends. It never reads a job or an answer, so its
memory, which every later process copies, contains no data of any task. The supervisor enters new process and mount
namespaces with an empty /tmp, drops its capabilities, reads one job as a line of JSON from standard input, forks the
program's process, monitors it, writes one line to standard output, and ends. The program's process only has its own
job, no descriptors of others, separate namespaces, and only the system calls that the filter allows.

A job is {"program", "inputs", "memory", "cpu_seconds", "file_bytes", "test_seconds", "output_characters"}; the answer
is {"ran", "isolated"}: {"status", "output", "error"} of each input, and whether the job had its own namespaces.
"""

import base64
import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from types import CodeType
from typing import Any

WALL = 5
"""Wall time limit per second of CPU time: it also ends a sleeping program, but not one that is slow on a busy machine."""
STATUS_LIMIT = 97
"""Exit status of a process that could not be restricted."""
_LAST = 98
"""Exit status of a supervisor after which the launcher ends."""
_MOST_FILES = 4096
"""Maximum files and folders in /tmp, because each uses kernel memory."""
_STARTING = 2.0
"""Additional wall time for the process on a busy machine, in seconds."""
_ERROR_CHARACTERS = 500
_NEW_NAMESPACES = 0x00020000 | 0x20000000
"""CLONE_NEWNS and CLONE_NEWPID."""
_PRIVATE, _NO_SUID_NO_DEVICES = 0x4000 | 0x40000, 2 | 4
_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 1, 38, 22, 2
_CAPABILITIES_VERSION = 0x20080522
_LIBC = ctypes.CDLL(None, use_errno=True)
_INPUT, _OUTPUT, _REPORT = 4, 5, 3
"""Descriptors of a program's process: the files of its standard input and output, and the pipe to its supervisor."""
_STATUSES = ("ok", "invalid", "error", "timeout", "output")


class _Timeout(BaseException):
    """The test's time limit is exceeded. Not an Exception, so that a program's handlers rarely catch it."""


def main(rules: bytes, disk_bytes: int) -> None:
    """The launcher: a supervisor per job, until standard input ends."""
    exec(compile("", "program.py", "exec"), {})  # initialises the compiler once, not in each process
    gc.freeze()
    while True:
        supervisor = os.fork()
        if supervisor == 0:
            status = _LAST
            try:
                status = _supervise(rules, disk_bytes)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(status)
        if os.waitpid(supervisor, 0)[1] != 0:
            return


def _supervise(rules: bytes, disk_bytes: int) -> int:
    """Run one job; the exit status."""
    isolated = _isolate(disk_bytes)
    line = _read_line()
    if not line:
        return _LAST
    job, mark = json.loads(line), os.urandom(16).hex().encode()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _lock_in(job, rules, writing)
            _run_all(job, mark)
            os._exit(0)
        finally:
            os._exit(STATUS_LIMIT)
    os.close(writing)
    ran, why = _watch(reading, job, mark)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    why = why or f"it ended with status {os.waitstatus_to_exitcode(status)}"
    ran += [{"status": "killed", "output": "", "error": why}] * (len(job["inputs"]) - len(ran))
    _write_all(1, json.dumps({"ran": ran, "isolated": isolated}).encode() + b"\n")
    return 0 if isolated else _LAST


def _isolate(disk_bytes: int) -> bool:
    """Give this supervisor's program its own namespaces and /tmp; return whether the system permits it.

    If it does not (a security module removes the sandbox's capabilities), the sandbox can only run one job.
    """
    settings = f"size={disk_bytes},nr_inodes={_MOST_FILES},mode=1777".encode()
    done: bool = (
        _LIBC.unshare(_NEW_NAMESPACES) == 0
        and _LIBC.mount(b"none", b"/", None, _PRIVATE, None) == 0
        and _LIBC.mount(b"none", b"/tmp", b"tmpfs", _NO_SUID_NO_DEVICES, settings) == 0
    )
    os.chdir("/tmp")  # change into the new /tmp
    header, nothing = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    if _LIBC.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities cannot be dropped")
    return done


def _read_line() -> bytes:
    """The next line of standard input, unbuffered; empty if there is none. The sender waits for the answer before it sends the next one."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 1 << 16)
        if not piece:
            return b""
        line += piece
    return bytes(line)


def _write_all(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]


def _watch(reading: int, job: dict[str, Any], mark: bytes) -> tuple[list[dict[str, str]], str]:
    """The process's reports on its inputs until it ends or must be killed, and the reason."""
    per_input = _STARTING + WALL * job["test_seconds"]
    whole = _STARTING + WALL * min(job["test_seconds"] * len(job["inputs"]), job["cpu_seconds"])
    characters = job["output_characters"] + _ERROR_CHARACTERS + 100
    most = 12 * characters  # JSON uses at most 12 bytes per character
    now = time.monotonic()
    end, due, rest = now + whole, now + per_input, bytearray()
    ran: list[dict[str, str]] = []
    while (now := time.monotonic()) < min(end, due):
        if not select.select([reading], [], [], min(end, due) - now)[0]:
            break
        piece = os.read(reading, 1 << 16)
        if not piece:
            return ran, ""
        rest += piece
        while (newline := rest.find(b"\n")) >= 0:
            report = _reported(bytes(rest[:newline]), mark)
            if report is None or len(ran) == len(job["inputs"]):
                return ran, "it was killed because it wrote to its supervisor"
            ran.append(report)
            del rest[: newline + 1]
            due = time.monotonic() + per_input
        if len(rest) > most:
            return ran, "it was killed because it wrote too much"
    return ran, "it was killed at its time limit"


def _reported(line: bytes, mark: bytes) -> dict[str, str] | None:
    """A line of `_run_all`; None for output of the program itself.

    A program can find the mark and misreport its own result, but gains no more than by printing that output.
    """
    if not line.startswith(mark):
        return None
    try:
        status, output, error = json.loads(line[len(mark) :])
    except (ValueError, TypeError, RecursionError):
        return None
    good = status in _STATUSES and isinstance(output, str) and isinstance(error, str)
    return {"status": status, "output": output, "error": error} if good else None


def _lock_in(job: dict[str, Any], rules: bytes, writing: int) -> None:
    """Restrict this process for the program: separate descriptors, hard limits, the filter."""
    os.setsid()
    if _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the process cannot be bound to its supervisor")
    nothing = os.open("/dev/null", os.O_RDWR)
    own = (nothing, nothing, nothing, writing, os.memfd_create("input"), os.memfd_create("output"))
    high = [os.dup2(descriptor, 32 + number) for number, descriptor in enumerate(own)]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number)
    os.closerange(len(own), 1 << 16)
    limits = {
        resource.RLIMIT_AS: job["memory"],
        resource.RLIMIT_CPU: job["cpu_seconds"],
        resource.RLIMIT_FSIZE: job["file_bytes"],
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_CORE: 0,
    }
    for name, amount in limits.items():
        resource.setrlimit(name, (amount, amount))
    signal.signal(signal.SIGALRM, _ring)
    signal.signal(signal.SIGPROF, _ring)
    signal.signal(
        signal.SIGXFSZ, signal.SIG_IGN
    )  # a write beyond the limit then raises an error instead of killing the process
    _put_on(rules)


class _Program(ctypes.Structure):
    """struct sock_fprog: the filter's instructions, of 8 bytes each."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _put_on(rules: bytes) -> None:
    """Install the system call filter in this process. Raises OSError."""
    program = _Program(len(rules) // 8, rules)
    locked = _LIBC.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    if not locked or _LIBC.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the system call filter cannot be installed")


def _run_all(job: dict[str, Any], mark: bytes) -> None:
    """A line per input: the mark, and [status, output, error]."""
    most = job["output_characters"]

    def tell(status: str, output: str, error: str) -> None:
        if len(output) > most:
            status, error = "output", f"wrote more than {most} characters"
        report = json.dumps([status, output[:most], error[:_ERROR_CHARACTERS]])
        _write_all(_REPORT, mark + report.encode() + b"\n")

    try:
        code = compile(job["program"], "program.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        for _ in job["inputs"]:
            tell("invalid", "", f"{type(error).__name__}: {error}")
        return
    for text in job["inputs"]:
        tell(*_run(code, text, job["test_seconds"]))


def _run(code: CodeType, text: str, seconds: float) -> tuple[str, str, str]:
    """Status, output and error of the program on one input, in a fresh namespace."""
    _put_in_place(text)
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
    return status, _written(), error


def _put_in_place(content: str) -> None:
    """Standard input that holds this text, and an empty standard output."""
    for descriptor, text in ((_INPUT, content.encode("utf-8", "replace")), (_OUTPUT, b"")):
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.ftruncate(descriptor, 0)
        _write_all(descriptor, text)
        os.lseek(descriptor, 0, os.SEEK_SET)
    os.dup2(_INPUT, 0)
    os.dup2(_OUTPUT, 1)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False)
        for number, mode in enumerate("rww")
    )


def _written() -> str:
    """All that was written to standard output."""
    with contextlib.suppress(OSError, ValueError):  # the program closed it, or filled it
        sys.stdout.flush()
    os.lseek(_OUTPUT, 0, os.SEEK_SET)
    with os.fdopen(_OUTPUT, "rb", closefd=False) as file:
        return file.read().decode("utf-8", "replace")


def _set_timers(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WALL * seconds)


def _ring(number: int, frame: object) -> None:
    raise _Timeout


if __name__ == "__main__":
    main(base64.b64decode(sys.argv[1]), int(sys.argv[2]))

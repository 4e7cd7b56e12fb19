"""Runs inside the sandbox, by a bare interpreter: one program on several inputs, each in a fresh namespace.

Reads {"program", "inputs", "memory", "cpu_seconds", "file_bytes", "test_seconds", "output_characters"} as JSON from
standard input and writes a line of JSON per input, {"status", "output", "error"}. It never learns what output is expected,
so that a program that meddles with this process gains nothing by it.
"""

import io
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any


class _Timeout(BaseException):
    """The test's time is up. No Exception, so that a program's own handlers seldom catch it."""


def main() -> None:
    """Run what standard input asks for."""
    job = json.load(sys.stdin)
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    _limit(job["memory"], job["cpu_seconds"], job["file_bytes"])
    signal.signal(signal.SIGALRM, _ring)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an error then, not the end

    def tell(status: str, output: str, error: str) -> None:
        most = job["output_characters"]
        if len(output) > most:
            status, error = "output", f"wrote more than {most} characters"
        results.write(json.dumps({"status": status, "output": output[:most], "error": error[:500]}) + "\n")
        results.flush()

    try:
        code = compile(job["program"], "program.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        for _ in job["inputs"]:
            tell("error", "", f"{type(error).__name__}: {error}")
        return
    for given in job["inputs"]:
        _run(code, given, job["test_seconds"], tell)


def _limit(memory: int, cpu_seconds: int, file_bytes: int) -> None:
    """Hard limits: what runs later cannot raise them."""
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
    }
    for name, amount in limits.items():
        resource.setrlimit(name, (amount, amount))


def _run(code: CodeType, given: str, seconds: float, tell: Callable[[str, str, str], None]) -> None:
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(given), io.StringIO(), io.StringIO()
    said: Any = sys.stdout
    status, error = "ok", ""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        exec(code, {"__name__": "__main__"})
    except _Timeout:
        status, error = "timeout", f"ran longer than {seconds} s"
    except SystemExit as ending:
        if ending.code not in (None, 0):
            status, error = "error", f"exit status {ending.code}"
    except BaseException as failure:
        status, error = "error", f"{type(failure).__name__}: {failure}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    tell(status, said.getvalue(), error)


def _ring(number: int, frame: object) -> None:
    raise _Timeout


if __name__ == "__main__":
    main()

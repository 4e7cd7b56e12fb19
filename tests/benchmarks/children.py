"""Measuring processes: the code of one checkout, one thread, and an end of their own when the program is interrupted."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

GRACE = 60.0
"""Seconds in which an interrupted process may end what it has started."""


def run_measuring(root: Path, words: Sequence[str], errors: IO[str] | None = None) -> int:
    """Run `python -m tests.benchmarks.measure` on the checkout `root`; returns its exit status.

    With `errors` its errors are written there and its output is dropped. An interruption is passed on once, and waited for.
    """
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": errors} if errors else {}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.measure", *words],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        **streams,
    )
    try:
        return child.wait()
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
            try:
                child.wait(GRACE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


@contextmanager
def terminations_as_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM and SIGHUP too, so that `finally` blocks run; at SIGINT also where a shell has it ignored."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

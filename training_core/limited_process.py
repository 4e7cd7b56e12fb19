"""A function in a process of its own with limits of memory, time and output: every parser of a file whose author is unknown runs there.

    python -m training_core.limited_process     (reads a job and writes an answer, as JSON)

A small file may expand to gigabytes, occupy a parser for minutes, or crash it. The process that serves others then gets one error. The
process of the parser has no variables of the server's environment, and reports by JSON only.
"""

import importlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from training_core.errors import DataError, TroupeError

_ROOT = Path(__file__).resolve().parents[1]
_MIB = 1 << 20
AT_A_TIME = 2
"""Processes of a server at the same time."""
PATIENCE = 20.0
"""Seconds that a call waits for others to end."""
WALL = 3
"""Wall time limit per second of CPU time, for a busy machine."""
_FREE = threading.BoundedSemaphore(AT_A_TIME)
_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Limits:
    """Limits of one call."""

    memory_mib: int = 1024
    """Address space, including the interpreter and its libraries."""
    cpu_seconds: float = 20.0
    file_mib: int = 0
    """Size of a file that the function writes; 0: it writes none."""
    answer_mib: int = 4
    """Size of the result as JSON."""


def call_limited(
    function: str, arguments: Mapping[str, Any], limits: Limits, *, subject: str, remedy: str
) -> Any:
    """Call "package.module:function" with keyword arguments, which are JSON as its result is.

    Raises DataError, as the function does, and if a limit is reached: it then names `subject` (the file), the limit and the `remedy`.
    """
    if not _FREE.acquire(timeout=PATIENCE):
        raise DataError(f"{subject} waits for other files to be read:", remedy="repeat it in a minute")
    try:
        with TemporaryFile() as answer:
            ended = _run(
                json.dumps(
                    {"function": function, "arguments": dict(arguments), "limits": asdict(limits)}
                ).encode(),
                limits,
                answer,
            )
            answer.seek(0)
            written = answer.read(limits.answer_mib * _MIB + 1)
    finally:
        _FREE.release()
    reason, result = _outcome(ended, written, limits)
    if reason:
        raise DataError(f"{subject} {reason}:", remedy=remedy)
    if "error" in result:
        raise DataError(result["error"], remedy=result["remedy"])
    return result["value"]


def _run(job: bytes, limits: Limits, answer: Any) -> int | None:
    """The exit code, negative for a signal; None if the process was killed because it took too long."""
    environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    path = os.pathsep.join([str(_ROOT), *filter(None, sys.path)])
    try:
        return subprocess.run(
            [sys.executable, "-m", "training_core.limited_process"],
            input=job,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            env=environment | _THREADS | {"PYTHONPATH": path, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            timeout=limits.cpu_seconds * WALL + 5.0,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def _outcome(ended: int | None, written: bytes, limits: Limits) -> tuple[str, dict[str, Any]]:
    """(which limit was reached, or how the process failed; its answer)."""
    if ended in (None, -signal.SIGXCPU):
        return f"takes more than {limits.cpu_seconds:g} s to read", {}
    if ended == -signal.SIGXFSZ:
        return f"expands to more than {max(limits.file_mib, limits.answer_mib)} MiB", {}
    if len(written) > limits.answer_mib * _MIB:
        return f"expands to more than {limits.answer_mib} MiB", {}
    try:
        answer: dict[str, Any] = json.loads(written)
    except ValueError:
        return f"cannot be read: its parser has crashed (exit code {ended})", {}
    if answer.get("memory"):
        return f"needs more than {limits.memory_mib} MiB of memory to read", {}
    return "", answer


def main() -> None:
    """Run the job of standard input."""
    job = json.load(sys.stdin)
    _restrict(Limits(**job["limits"]))
    try:
        module, _, name = job["function"].partition(":")
        answer = {"value": getattr(importlib.import_module(module), name)(**job["arguments"])}
    except MemoryError:
        answer = {"memory": True}
    except TroupeError as error:
        answer = {"error": _shortened(error.advice.cause), "remedy": error.advice.remedy}
    except Exception as error:  # of a parser that a file has surprised
        message = _shortened(" ".join(str(error).split()), 300)
        answer = {"error": f"the data cannot be read ({type(error).__name__}: {message})", "remedy": ""}
    sys.stdout.write(json.dumps(answer))


def _shortened(text: str, most: int = 1000) -> str:
    """A sentence, which may quote a name or a value of the file."""
    return text if len(text) <= most else f"{text[:most]}…"


def _restrict(limits: Limits) -> None:
    seconds = math.ceil(limits.cpu_seconds)
    files = max(limits.file_mib, limits.answer_mib) * _MIB
    for kind, soft, hard in (
        (resource.RLIMIT_AS, limits.memory_mib * _MIB, limits.memory_mib * _MIB),
        (resource.RLIMIT_CPU, seconds, seconds + 1),
        (resource.RLIMIT_FSIZE, files + 1, files + 1),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with suppress(ValueError, OSError):  # macOS does not limit the address space
            resource.setrlimit(kind, (soft, hard))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it


if __name__ == "__main__":
    main()

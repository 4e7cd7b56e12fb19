"""Run a program that an agent wrote on some inputs, in a sandbox, within limits."""

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from training_core.errors import SandboxFailure
from training_core.sandbox.bubblewrap import command, system_call_filter

_HARNESS = Path(__file__).with_name("harness.py")
_START_SECONDS = 10.0
"""What putting up a sandbox may take on a busy machine, on top of the program's own time."""
_MIB = 1024**2


@dataclass(frozen=True)
class Limits:
    """What a program may use up. Its processes: one."""

    test_seconds: float = 1.0
    """Wall time on one input."""
    cpu_seconds: int = 4
    """CPU time on all inputs together."""
    memory_mib: int = 256
    """Address space, the interpreter's included."""
    disk_mib: int = 8
    """Files in /tmp, which lie in memory, and what reaches the standard output."""
    output_characters: int = 10_000
    """Written on one input."""


@dataclass(frozen=True)
class Ran:
    """What a program did with one input."""

    status: Literal["ok", "error", "timeout", "output", "killed"]
    """output: it wrote too much; killed: it was ended before it came to an end, by a limit or by itself."""
    output: str
    """Its standard output."""
    error: str
    """In a line; empty when ok."""


_LINE = TypeAdapter(Ran)


def run_program(program: str, inputs: Sequence[str], limits: Limits | None = None) -> list[Ran]:
    """Run a Python program once per standard input. Equal calls are answered from memory.

    Raises SandboxFailure where no sandbox can be put up.
    """
    return list(_run(program, tuple(inputs), limits or Limits()))


@cache
def check_sandbox() -> None:
    """Raises SandboxFailure, saying what to install, where no sandbox can be put up."""
    ran = run_program("print(input())", ["ready"])[0]
    if ran.output.strip() != "ready":
        raise SandboxFailure(f"the sandbox for agents' code does not work: {ran.error}")


@lru_cache(maxsize=4096)
def _run(program: str, inputs: tuple[str, ...], limits: Limits) -> tuple[Ran, ...]:
    job = {
        "program": program,
        "inputs": inputs,
        "memory": limits.memory_mib * _MIB,
        "cpu_seconds": limits.cpu_seconds,
        "file_bytes": limits.disk_mib * _MIB,
        "test_seconds": limits.test_seconds,
        "output_characters": limits.output_characters,
    }
    seconds = _START_SECONDS + limits.test_seconds * len(inputs)
    lines, why = _sandboxed(json.dumps(job), seconds, limits.disk_mib * _MIB)
    found = [_read(line) for line in lines[: len(inputs)]]
    ended = [ran for ran in found if ran is not None]
    return (*ended, *[Ran("killed", "", why)] * (len(inputs) - len(ended)))


def _sandboxed(job: str, seconds: float, disk_bytes: int) -> tuple[list[str], str]:
    """Lines that the harness wrote, and why it wrote no more."""
    filter_fd = os.memfd_create("filter")
    with (
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as complaints,
        os.fdopen(filter_fd, "w+b") as rules,
    ):
        rules.write(system_call_filter())
        rules.seek(0)
        process = subprocess.Popen(
            command(_HARNESS, filter_fd, disk_bytes),
            stdin=subprocess.PIPE, stdout=said, stderr=complaints, pass_fds=(filter_fd,),
        )  # fmt: skip
        try:
            process.communicate(job.encode("utf-8", "replace"), timeout=seconds)
            why = f"it was ended with status {process.returncode}"
        except subprocess.TimeoutExpired:
            why = f"it was ended after {seconds:.0f} s"
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        complaints.seek(0)
        problem = complaints.read(2000).decode("utf-8", "replace").strip()
        if problem.startswith("bwrap:"):
            raise SandboxFailure(
                f"the sandbox for agents' code cannot be put up ({problem}); allow user namespaces "
                "(sysctl kernel.unprivileged_userns_clone=1; in a container: --security-opt seccomp=unconfined)"
            )
        return said.read(disk_bytes).decode("utf-8", "replace").splitlines(), why


def _read(line: str) -> Ran | None:
    """A line of the harness; None where the program wrote something else there."""
    try:
        return _LINE.validate_json(line)
    except ValidationError:
        return None

"""Run a program written by an agent on given inputs, in a sandbox with limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from pydantic import TypeAdapter

from training_core.errors import SandboxFailure
from training_core.sandbox.harness import WALL
from training_core.sandbox.server import Sandbox, Unanswered

Status = Literal["ok", "invalid", "error", "timeout", "output", "killed"]
_MIB = 1024**2


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

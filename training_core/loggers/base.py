"""Loggers: additional outputs of a run's curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class LoggerSetup:
    """Arguments that a logger is constructed with."""

    folder: Path
    """The run folder; loggers write below it."""
    project: str
    run: str
    """Id of the run."""
    name: str
    """Name of the run for people."""
    config: Mapping[str, Any]
    """The resolved config, as JSON data."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The fields of `[reporting]`; empty in a script, where a logger uses its defaults."""


class Logger(Protocol):
    """Called by one thread, in the order of the run's calls. Steps may repeat and may decrease."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of one step, by name."""
        ...

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        """Write the distribution of at least one number of one step."""
        ...

    def close(self) -> None:
        """Write pending data and close."""
        ...

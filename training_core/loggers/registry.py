"""Loggers, additional outputs of a run's curves, by the field of `[reporting]` that enables them.

A logger's module is imported when it is first used: each needs its own package.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from training_core.config.base import Section
from training_core.config.effects import Effects, where
from training_core.errors import ConfigError
from training_core.importing import resolve


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


class JsonLinesFields(Section):
    """Fields of `[reporting]` for JSON Lines."""

    jsonl: bool = False
    """Also write every metric to metrics.jsonl in the run's folder, one JSON object per line."""


class TensorBoardFields(Section):
    """Fields of `[reporting]` for TensorBoard."""

    tensorboard: bool = False
    """Also write every metric to TensorBoard event files, below tensorboard/ in the run's folder (extra `tensorboard`)."""


class WandbFields(Section):
    """Fields of `[reporting]` for Weights & Biases."""

    effects: ClassVar[Effects] = {"wandb_mode": where("wandb", True)}
    wandb: bool = False
    """Also log every metric to Weights & Biases (extra `wandb`)."""
    wandb_mode: Literal["offline", "online"] = "offline"
    """offline: stored below wandb/ in the run's folder, for `wandb sync`; online: sent immediately, with the machine's W&B login."""


FOLDER = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class LoggerKind:
    """One logger."""

    fields: type[Section]
    """Its fields of `[reporting]`; one has the name of the logger and enables it."""
    logger: str
    """"module:Class" in this package."""
    package: str = ""
    """The package that it needs; the extra that installs it has the same name."""


LOGGERS: dict[str, LoggerKind] = {
    "jsonl": LoggerKind(JsonLinesFields, "jsonl:JsonLines"),
    "tensorboard": LoggerKind(TensorBoardFields, "tensorboard:TensorBoard", "tensorboard"),
    "wandb": LoggerKind(WandbFields, "wandb:WeightsAndBiases", "wandb"),
}
"""Loggers by name, in the order of the fields."""


def enabled_loggers(reporting: Section) -> tuple[str, ...]:
    """Return the names of enabled loggers. Raises ConfigError if a package is missing."""
    names = tuple(name for name in LOGGERS if getattr(reporting, name))
    for name in names:
        package = LOGGERS[name].package
        if package and find_spec(package) is None:
            text = f"needs the package {package}:"
            raise ConfigError({f"reporting.{name}": text}, remedy=f"pip install 'troupe[{package}]'")
    return names


def open_logger(name: str, setup: LoggerSetup) -> Logger:
    """The opened logger of this name."""
    logger: Logger = resolve(f"{FOLDER}.{LOGGERS[name].logger}")(setup)
    return logger

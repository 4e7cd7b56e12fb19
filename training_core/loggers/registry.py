"""Loggers by the field of `[reporting]` that enables them: one folder and one line each.

Only the `config` modules are imported here. A logger is imported when it is first used: each needs its own package.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from training_core.config.base import Section
from training_core.errors import ConfigError
from training_core.importing import resolve
from training_core.loggers.jsonl.config import JsonLinesFields
from training_core.loggers.tensorboard.config import TensorBoardFields
from training_core.loggers.wandb.config import WandbFields

if TYPE_CHECKING:
    from training_core.loggers.base import Logger, LoggerSetup

FOLDER = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class LoggerKind:
    """One logger."""

    fields: type[Section]
    """Its fields of `[reporting]`; one has the name of the logger and enables it."""
    logger: str
    """"folder.module:Class" in this package."""
    package: str = ""
    """The package that it needs; the extra that installs it has the same name."""


LOGGERS: dict[str, LoggerKind] = {
    "jsonl": LoggerKind(JsonLinesFields, "jsonl.logger:JsonLines"),
    "tensorboard": LoggerKind(TensorBoardFields, "tensorboard.logger:TensorBoard", "tensorboard"),
    "wandb": LoggerKind(WandbFields, "wandb.logger:WeightsAndBiases", "wandb"),
}
"""Loggers by name, in the order of the fields."""


def enabled_loggers(reporting: Section) -> tuple[str, ...]:
    """Return the names of enabled loggers. Raises ConfigError if a package is missing."""
    names = tuple(name for name in LOGGERS if getattr(reporting, name))
    for name in names:
        package = LOGGERS[name].package
        if package and find_spec(package) is None:
            text = f"needs the package {package}: pip install 'troupe[{package}]'"
            raise ConfigError({f"reporting.{name}": text})
    return names


def open_logger(name: str, setup: "LoggerSetup") -> "Logger":
    """The opened logger of this name."""
    logger: Logger = resolve(f"{FOLDER}.{LOGGERS[name].logger}")(setup)
    return logger

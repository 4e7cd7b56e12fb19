"""Loggers by the field of `[reporting]` that enables them. Imported on first use: each needs its own package."""

from collections.abc import Callable
from importlib.util import find_spec

from training_core.config.evaluation import Reporting
from training_core.errors import ConfigError
from workers.reporting.loggers.base import Logger, LoggerSetup


def _jsonl(setup: LoggerSetup) -> Logger:
    from workers.reporting.loggers.jsonl import JsonLines

    return JsonLines(setup)


def _tensorboard(setup: LoggerSetup) -> Logger:
    from workers.reporting.loggers.tensorboard import TensorBoard

    return TensorBoard(setup)


def _wandb(setup: LoggerSetup) -> Logger:
    from workers.reporting.loggers.weights_and_biases import WeightsAndBiases

    return WeightsAndBiases(setup)


LOGGERS: dict[str, Callable[[LoggerSetup], Logger]] = {
    "jsonl": _jsonl,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
}
PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb"}
"""Package that a logger needs; the extra that installs it has the same name."""


def enabled_loggers(reporting: Reporting) -> tuple[str, ...]:
    """Return the names of enabled loggers. Raises ConfigError if a package is missing."""
    names = tuple(name for name in LOGGERS if getattr(reporting, name))
    for name in names:
        if name in PACKAGES and find_spec(PACKAGES[name]) is None:
            text = f"needs the package {PACKAGES[name]}: pip install 'troupe[{name}]'"
            raise ConfigError({f"reporting.{name}": text})
    return names

"""Loggers by the field of `[reporting]` that asks for them. Imported when asked for: each needs a package of its own."""

from collections.abc import Callable
from importlib.util import find_spec

from training_core.config.evaluation import Reporting
from training_core.errors import ConfigError
from workers.reporting.loggers.base import Logger, Opening


def _jsonl(opening: Opening) -> Logger:
    from workers.reporting.loggers.jsonl import JsonLines

    return JsonLines(opening)


def _tensorboard(opening: Opening) -> Logger:
    from workers.reporting.loggers.tensorboard import TensorBoard

    return TensorBoard(opening)


def _wandb(opening: Opening) -> Logger:
    from workers.reporting.loggers.weights_and_biases import WeightsAndBiases

    return WeightsAndBiases(opening)


LOGGERS: dict[str, Callable[[Opening], Logger]] = {
    "jsonl": _jsonl,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
}
PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb"}
"""What a logger needs that a plain install has not; the extra has the same name."""


def wanted(reporting: Reporting) -> tuple[str, ...]:
    """Which are asked for. Raises ConfigError where a package is missing."""
    names = tuple(name for name in LOGGERS if getattr(reporting, name))
    for name in names:
        if name in PACKAGES and find_spec(PACKAGES[name]) is None:
            text = f"needs the package {PACKAGES[name]}: pip install 'troupe[{name}]'"
            raise ConfigError({f"reporting.{name}": text})
    return names

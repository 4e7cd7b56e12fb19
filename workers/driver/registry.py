"""Loops by name."""

from collections.abc import Callable

from training_core.config.experiment import ExperimentConfig
from workers.driver import asynchronous, synchronous

LOOPS: dict[str, Callable[..., tuple[str, int]]] = {
    "synchronous": synchronous.train,
    "asynchronous": asynchronous.train,
}
"""(run, checkpoint to start from, forks=whether it is another run's) -> final state, completed iterations."""


def loop_of(config: ExperimentConfig) -> str:
    """Name of the loop that the config selects."""
    return "asynchronous" if config.overlaps else "synchronous"

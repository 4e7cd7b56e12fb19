"""Loops by name."""

from collections.abc import Callable

from training_core.config.experiment import ExperimentConfig
from workers.driver import asynchronous, synchronous

LOOPS: dict[str, Callable[..., tuple[str, int]]] = {
    "synchronous": synchronous.train,
    "asynchronous": asynchronous.train,
}
"""(run, checkpoint to go on from, forks=whether it is another run's) -> last state, iterations completed."""


def loop_of(config: ExperimentConfig) -> str:
    """Which loop trains."""
    return "asynchronous" if config.overlaps else "synchronous"

"""Loops by name."""

from collections.abc import Callable

from training_core.config.run import RunConfig
from workers.loops import asynchronous, synchronous

LOOPS: dict[str, Callable[..., tuple[str, int]]] = {
    "synchronous": synchronous.train,
    "asynchronous": asynchronous.train,
}
"""(run, checkpoint to go on from, forks=whether it is another run's) -> last state, iterations completed."""


def loop_of(config: RunConfig) -> str:
    """Which loop trains: nothing can overlap where no data may be older than the policy."""
    return "asynchronous" if config.rollout.staleness > 0 else "synchronous"

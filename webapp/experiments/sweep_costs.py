"""Estimated cost of runs before the launch: iterations, responses, tokens, devices."""

from collections.abc import Sequence
from dataclasses import dataclass

from training_core.config.kinds import AnyConfig
from workers.sizing.demand import demand
from workers.sizing.estimates import volume


@dataclass(frozen=True)
class Cost:
    """Upper bounds over all runs; devices are those of the largest single run."""

    runs: int
    iterations: int
    answers: int
    """Maximum number of sampled training responses; for small networks, environment steps."""
    tokens: int
    """Maximum number of tokens of those responses, prompts not counted."""
    cpus: float
    gpus: float


def cost_of(configs: Sequence[AnyConfig]) -> Cost:
    """Return the cost of all configs together."""
    demands = [demand(config) for config in configs]
    return Cost(
        runs=len(configs),
        iterations=sum(config.run.iterations for config in configs),
        answers=sum(config.run.iterations * volume(config).answers for config in configs),
        tokens=sum(volume(config).tokens_total for config in configs),
        cpus=max((need.cpus for need in demands), default=0.0),
        gpus=max((need.gpus for need in demands), default=0.0),
    )

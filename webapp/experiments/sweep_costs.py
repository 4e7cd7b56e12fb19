"""What runs cost before they are launched: iterations, answers, tokens, devices."""

from collections.abc import Sequence
from dataclasses import dataclass

from training_core.config.kinds import AnyConfig
from workers.sizing.demand import demand
from workers.sizing.estimates import volume


@dataclass(frozen=True)
class Cost:
    """Upper bounds over all runs; devices are those of the hungriest single run."""

    runs: int
    iterations: int
    answers: int
    """Training answers sampled at most; of small networks, environment steps."""
    tokens: int
    """Tokens of those answers at most, prompts not counted."""
    cpus: float
    gpus: float


def cost_of(configs: Sequence[AnyConfig]) -> Cost:
    """Of all of them together."""
    wanted = [demand(config) for config in configs]
    return Cost(
        runs=len(configs),
        iterations=sum(config.run.iterations for config in configs),
        answers=sum(config.run.iterations * volume(config).answers for config in configs),
        tokens=sum(volume(config).tokens_total for config in configs),
        cpus=max((each.cpus for each in wanted), default=0.0),
        gpus=max((each.gpus for each in wanted), default=0.0),
    )

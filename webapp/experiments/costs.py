"""What runs cost before they are launched: iterations, answers, tokens, devices."""

from collections.abc import Sequence
from dataclasses import dataclass

from training_core.config.run import RunConfig
from workers.launch.demand import demand


@dataclass(frozen=True)
class Cost:
    """Upper bounds over all runs; devices are those of the hungriest single run."""

    runs: int
    iterations: int
    answers: int
    """Training answers sampled at most."""
    tokens: int
    """Tokens of those answers at most, prompts not counted."""
    cpus: float
    gpus: float


def answers_most(config: RunConfig) -> int:
    """Answers of one iteration at most: every task played to its last turn."""
    turns = int(getattr(config.environment, "max_turns", 1))
    return config.rollout.tasks * config.rollout.group_size * turns * len(config.team.order)


def tokens_most(config: RunConfig) -> int:
    """Tokens of one iteration's answers at most."""
    turns = int(getattr(config.environment, "max_turns", 1))
    longest = sum(config.team.roles[name].sampling.max_tokens for name in config.team.order)
    return config.rollout.tasks * config.rollout.group_size * turns * longest


def cost_of(configs: Sequence[RunConfig]) -> Cost:
    """Of all of them together."""
    wanted = [demand(config) for config in configs]
    return Cost(
        runs=len(configs),
        iterations=sum(config.run.iterations for config in configs),
        answers=sum(config.run.iterations * answers_most(config) for config in configs),
        tokens=sum(config.run.iterations * tokens_most(config) for config in configs),
        cpus=max((each.cpus for each in wanted), default=0.0),
        gpus=max((each.gpus for each in wanted), default=0.0),
    )

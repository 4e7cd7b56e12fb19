"""Custom algorithms: GRPO's steps again, written without Troupe's functions, and classes with mistakes."""

from typing import Any

import numpy as np
import torch

from training_core.algorithms.config import CustomAlgorithm
from training_core.algorithms.hooks import AlgorithmHooks, ComparedRewards
from training_core.algorithms.registry import ALGORITHM_CONFIGS

HERE = __name__


def custom(path: str, kind: str = "at_grpo", **args: Any) -> dict[str, Any]:
    """The custom algorithm with the settings of another type."""
    settings = ALGORITHM_CONFIGS[kind]().model_dump(exclude={"type"})
    return settings | {"type": "custom", "path": path, "args": args}


class Restated(AlgorithmHooks):
    """Rewards less their group's mean, over its deviation; the clipped ratio. Adds args.bonus to rewards."""

    algorithm: CustomAlgorithm

    def turn_rewards(self, rewards: Any, moment: Any) -> Any:
        return rewards + self.algorithm.args.get("bonus", 0.0)

    def advantages(self, compared: ComparedRewards, baselines: dict[str, float]) -> Any:
        found = np.zeros(len(compared.rewards))
        for group in np.flatnonzero(compared.informative):
            members = np.flatnonzero(compared.groups == group)
            rewards = compared.rewards[members]
            mean = np.add.accumulate(rewards)[-1] / len(rewards)  # the order in which bincount adds
            squares = np.add.accumulate((rewards - mean) ** 2)[-1]
            found[members] = (rewards - mean) / (np.sqrt(squares / (len(rewards) - 1)) + 1e-6)
        baselines["batches"] = baselines.get("batches", 0.0) + 1.0
        return found

    def policy_loss(self, tokens: Any, bounds: Any) -> Any:
        ratios = (tokens.logprobs - tokens.old_logprobs).exp()
        free = -ratios * tokens.advantages
        bounded = -ratios.clamp(1.0 - bounds.low, 1.0 + bounds.high) * tokens.advantages
        loss = torch.maximum(free, bounded)
        if not bounds.dual:
            return loss, bounded > free
        most = -bounds.dual * tokens.advantages
        cut = (tokens.advantages < 0) & (loss > most)
        return torch.where(cut, most, loss), (bounded > free) | cut


class Scaled(AlgorithmHooks):
    """Rewards relative to the turn's largest: it needs at least one."""

    def turn_rewards(self, rewards: Any, moment: Any) -> Any:
        return rewards / rewards.max()


class Unmakeable(AlgorithmHooks):
    """Its constructor fails."""

    def __init__(self, algorithm: Any) -> None:
        super().__init__(algorithm)
        self.rate = algorithm.args["rate"]


class WrongShapes(AlgorithmHooks):
    """Returns one entry less from the method that args.method names."""

    algorithm: CustomAlgorithm

    def shorter(self, method: str, values: Any) -> Any:
        return values[1:] if self.algorithm.args["method"] == method else values

    def turn_rewards(self, rewards: Any, moment: Any) -> Any:
        return self.shorter("turn_rewards", rewards)

    def group_rewards(self, rewards: Any, groups: Any) -> Any:
        return self.shorter("group_rewards", rewards)

    def advantages(self, compared: Any, baselines: Any) -> Any:
        return self.shorter("advantages", super().advantages(compared, baselines))

    def policy_loss(self, tokens: Any, bounds: Any) -> Any:
        loss, clipped = super().policy_loss(tokens, bounds)
        return self.shorter("policy_loss", loss), clipped

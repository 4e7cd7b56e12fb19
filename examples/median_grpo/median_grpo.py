"""The steps of AT-GRPO with a median as the baseline."""

import numpy as np

from examples.median_grpo.config import MedianGrpo
from training_core.algorithms.at_grpo import Floats
from training_core.algorithms.hooks import AlgorithmHooks, ComparedRewards


class MedianGrpoHooks(AlgorithmHooks):
    """A = scale (R - the median of the group); 0 in groups that are not informative."""

    algorithm: MedianGrpo

    def normalised(self, compared: ComparedRewards, baselines: dict[str, float]) -> Floats:
        rewards, groups = compared.rewards, compared.groups
        medians = np.array([np.median(rewards[groups == group]) for group in range(len(compared.roles))])
        return np.where(compared.live, self.algorithm.scale * (rewards - medians[groups]), 0.0)

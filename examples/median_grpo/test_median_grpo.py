"""median_grpo: advantages by hand."""

import numpy as np

from examples.median_grpo.config import MedianGrpo
from examples.median_grpo.median_grpo import MedianGrpoHooks
from training_core.algorithms.hooks import ComparedRewards


def test_the_median_of_the_group_is_the_baseline() -> None:
    rewards, groups = np.array([0.0, 1.0, 9.0, 4.0, 4.0]), np.array([0, 0, 0, 1, 1])
    informative = np.array([True, False])
    compared = ComparedRewards(rewards, groups, ["planner", "planner"], informative, np.ones(5))
    hooks = MedianGrpoHooks(MedianGrpo(scale=0.5))
    assert hooks.advantages(compared, {}).tolist() == [-0.5, 0.0, 4.0, 0.0, 0.0]

"""Advantages against numbers by hand and an independent loop."""

import math
import statistics

import numpy as np
import pytest

from training_core.algorithms.advantages import Normalisation, has_variance, normalised_advantages

REWARDS = np.array([1.0, 2.0, 3.0, 5.0, 5.0, 5.0, 7.0])
GROUPS = np.array([0, 0, 0, 1, 1, 1, 2])


def test_within_a_group_by_hand() -> None:
    # mean 2, unbiased std 1; equal rewards and a group of one give exactly 0
    advantages = normalised_advantages(REWARDS, GROUPS, Normalisation())
    assert advantages[:3] == pytest.approx([-1 / (1 + 1e-6), 0.0, 1 / (1 + 1e-6)], abs=1e-12)
    assert (advantages[3:] == 0.0).all()


def test_which_groups_vary() -> None:
    assert has_variance(REWARDS, GROUPS).tolist() == [True, False, False]


def test_leaving_one_out_by_hand() -> None:
    how = Normalisation("group", "none", leave_one_out=True)
    advantages = normalised_advantages(REWARDS, GROUPS, how)
    assert advantages[:3] == pytest.approx([1 - 2.5, 2 - 2.0, 3 - 1.5])


def test_over_the_batch_by_hand() -> None:
    advantages = normalised_advantages(
        np.array([0.0, 0.0, 3.0]), np.array([0, 1, 1]), Normalisation("batch", "batch")
    )
    assert advantages == pytest.approx([-1 / (math.sqrt(3) + 1e-6)] * 2 + [2 / (math.sqrt(3) + 1e-6)])


def test_without_normalisation_rewards_stay() -> None:
    assert (normalised_advantages(REWARDS, GROUPS, Normalisation("none", "none")) == REWARDS).all()


@pytest.mark.parametrize("seed", range(5))
def test_against_a_loop(seed: int) -> None:
    random = np.random.default_rng(seed)
    groups = np.sort(random.integers(0, 12, 60))
    groups = np.unique(groups, return_inverse=True)[1]
    rewards = random.choice([0.0, 0.5, 1.0, -0.1], 60)
    advantages = normalised_advantages(rewards, groups, Normalisation())
    for place in range(60):
        mine = rewards[groups == groups[place]].tolist()
        wanted = 0.0
        if len(mine) > 1 and len(set(mine)) > 1:
            wanted = (rewards[place] - statistics.mean(mine)) / (statistics.stdev(mine) + 1e-6)
        assert advantages[place] == pytest.approx(wanted, abs=1e-9)

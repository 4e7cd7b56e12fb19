"""Advantages against numbers by hand and an independent loop."""

import math
import statistics

import numpy as np
import pytest

from training_core.algorithms.advantages import Normalisation, has_variance, normalised_advantages
from training_core.algorithms.grouping import GroupCounts, count_groups

REWARDS = np.array([1.0, 2.0, 3.0, 5.0, 5.0, 5.0, 7.0])
GROUPS = np.array([0, 0, 0, 1, 1, 1, 2])


def test_within_a_group_by_hand() -> None:
    # mean 2, unbiased std 1; equal rewards and a group of one give exactly 0
    advantages = normalised_advantages(REWARDS, GROUPS, Normalisation())
    assert advantages[:3] == pytest.approx([-1 / (1 + 1e-6), 0.0, 1 / (1 + 1e-6)], abs=1e-12)
    assert (advantages[3:] == 0.0).all()


def test_which_groups_vary() -> None:
    assert has_variance(REWARDS, GROUPS).tolist() == [True, False, False]


def test_rounding_is_no_variance() -> None:
    rewards = np.array([0.1 + 0.2, 0.3, 0.3, 0.3 + 1e-6])
    groups = np.array([0, 0, 1, 1])
    assert has_variance(rewards, groups).tolist() == [False, True]
    assert (normalised_advantages(rewards, groups, Normalisation())[:2] == 0.0).all()


def test_a_group_of_one_is_compared_with_the_batch_where_that_is_asked_for() -> None:
    advantages = normalised_advantages(np.array([1.0, 3.0]), np.array([0, 1]), Normalisation("batch", "none"))
    assert advantages.tolist() == [-1.0, 1.0]


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


def test_leaving_one_out_of_one_gives_nothing() -> None:
    how = Normalisation("batch", "none", leave_one_out=True)
    assert normalised_advantages(np.array([4.0]), np.array([0]), how).tolist() == [0.0]


def test_difficulty_by_hand() -> None:
    # varied; all earned; none earned (0); none earned (below 0); a group of one that earned
    rewards = np.array([0.0, 1.0, 0.5, 0.5, 0.0, 0.0, -0.1, -0.1, 2.0])
    groups = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4])
    assert count_groups(rewards, groups) == GroupCounts(total=5, zero_variance=4, too_easy=2, too_hard=2)


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

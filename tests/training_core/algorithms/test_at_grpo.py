"""Advantages against numbers by hand and an independent loop."""

import math
import statistics
from itertools import product

import numpy as np
import pytest

from training_core.algorithms.at_grpo import (
    GroupCounts,
    GroupFilter,
    Normalisation,
    count_groups,
    has_variance,
    informative_groups,
    left_out,
    normalised_advantages,
    whitened,
)
from training_core.algorithms.config import ReinforcePlusPlusBaseline
from training_core.algorithms.hooks import ComparedRewards
from training_core.algorithms.registry import make_hooks

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


def test_a_group_of_one_can_be_compared_with_the_batch() -> None:
    how = Normalisation("batch", "none", drop_equal=False)
    advantages = normalised_advantages(np.array([1.0, 3.0]), np.array([0, 1]), how)
    assert advantages.tolist() == [-1.0, 1.0]


def test_leaving_one_out_by_hand() -> None:
    how = Normalisation("group", "none", leave_one_out=True)
    advantages = normalised_advantages(REWARDS, GROUPS, how)
    assert advantages[:3] == pytest.approx([1 - 2.5, 2 - 2.0, 3 - 1.5])


def test_over_the_batch_by_hand() -> None:
    advantages = normalised_advantages(
        np.array([0.0, 0.0, 3.0]), np.array([0, 1, 1]), Normalisation("batch", "batch", drop_equal=False)
    )
    assert advantages == pytest.approx([-1 / (math.sqrt(3) + 1e-6)] * 2 + [2 / (math.sqrt(3) + 1e-6)])


def test_without_normalisation_rewards_stay() -> None:
    how = Normalisation("none", "none", drop_equal=False)
    assert (normalised_advantages(REWARDS, GROUPS, how) == REWARDS).all()


def test_leaving_one_out_of_one_gives_nothing() -> None:
    for leave_one_out in (True, False):
        how = Normalisation("batch", "none", leave_one_out=leave_one_out, drop_equal=False)
        assert normalised_advantages(np.array([4.0]), np.array([0]), how).tolist() == [0.0]


def test_an_empty_batch_has_no_advantages() -> None:
    nothing = np.array([]), np.array([], dtype=np.int64)
    assert has_variance(*nothing).tolist() == []


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


COMBINATIONS = [
    Normalisation(mean, std, leave, unbiased, drop)
    for mean, std, leave, unbiased, drop in product(
        ("group", "batch", "none"), ("group", "batch", "none"), (False, True), (False, True), (False, True)
    )
]
AWKWARD = {
    "equal": [1.0, 1.0, 1.0],
    "equal but for rounding": [0.1 + 0.2, 0.3, 0.3],
    "large and equal but for rounding": [1e9 + 0.1, 1e9 + 0.1, 1e9],
    "zero": [0.0, 0.0],
    "alone": [7.0],
    "telling": [0.0, 1.0, 1.0],
}


def naive(rewards: list[float], groups: list[int], how: Normalisation) -> list[float]:
    """Advantages by loops over plain lists."""

    def differ(values: list[float]) -> bool:
        return max(values) - min(values) > 1e-9 * max(abs(max(values)), abs(min(values)))

    def deviation(values: list[float]) -> float:
        if not differ(values):
            return 1.0
        return (statistics.stdev(values) if how.unbiased else statistics.pstdev(values)) + 1e-6

    found = []
    for place, (reward, group) in enumerate(zip(rewards, groups, strict=True)):
        mine = [other for other, owner in zip(rewards, groups, strict=True) if owner == group]
        within = "group" in (how.mean_level, how.std_level)
        if not differ(mine) and (within or how.drop_equal):
            found.append(0.0)
            continue
        advantage = reward
        if how.mean_level != "none":
            others = [
                each
                for at, (each, owner) in enumerate(zip(rewards, groups, strict=True))
                if (how.mean_level == "batch" or owner == group) and not (how.leave_one_out and at == place)
            ]
            advantage -= statistics.fmean(others) if others else reward
        if how.std_level != "none":
            advantage /= deviation(mine if how.std_level == "group" else rewards)
        found.append(advantage)
    return found


@pytest.mark.parametrize("how", COMBINATIONS, ids=str)
def test_every_normalisation_is_that_of_a_naive_loop(how: Normalisation) -> None:
    random = np.random.default_rng(3)
    for size in (1, 2, 9, 40):
        groups = np.unique(np.sort(random.integers(0, 12, size)), return_inverse=True)[1]
        rewards = random.choice([0.0, 0.5, 1.0, -0.1, 0.1 + 0.2, 0.3], size)
        found = normalised_advantages(rewards, groups, how)
        assert found == pytest.approx(naive(rewards.tolist(), groups.tolist(), how), abs=1e-9)


@pytest.mark.parametrize("how", COMBINATIONS, ids=str)
def test_equal_rewards_have_advantage_zero_under_every_normalisation(how: Normalisation) -> None:
    rewards = np.array([reward for group in AWKWARD.values() for reward in group])
    groups = np.repeat(np.arange(len(AWKWARD)), [len(group) for group in AWKWARD.values()])
    found = normalised_advantages(rewards, groups, how)
    informative = informative_groups(rewards, groups, how)
    if how.drop_equal or "group" in (how.mean_level, how.std_level):
        assert informative.tolist() == [False] * 5 + [True]
        assert (found[:-3] == 0.0).all(), "exactly 0, whatever the mean and the deviation are taken over"
    else:
        assert informative.all(), "no group is compared with itself, so that none is left out"
    assert (found[~informative[groups]] == 0.0).all()


@pytest.mark.parametrize("how", COMBINATIONS, ids=str)
@pytest.mark.parametrize("reward", [0.0, 1.0, -3.0])
def test_a_batch_of_equal_rewards_is_never_divided_by_almost_nothing(
    how: Normalisation, reward: float
) -> None:
    rewards = np.full(6, reward)
    rewards[0] += reward * 1e-13
    found = normalised_advantages(rewards, np.array([0, 0, 1, 1, 2, 2]), how)
    assert np.abs(found).max() <= abs(reward) + 1e-9


def test_a_biased_deviation_divides_by_the_number_of_rewards() -> None:
    how = Normalisation("group", "group", unbiased=False)
    found = normalised_advantages(np.array([0.0, 2.0]), np.array([0, 0]), how)
    assert found == pytest.approx([-1 / (1 + 1e-6), 1 / (1 + 1e-6)])


def test_whitening_leaves_groups_that_are_not_telling_out() -> None:
    values = np.array([1.0, -1.0, 0.0, 3.0, 0.0])
    live = np.array([True, True, False, True, False])
    # of 1, -1, 3: mean 1, unbiased standard deviation 2
    assert whitened(values, live).tolist() == pytest.approx([0.0, -1.0, 0.0, 1.0, 0.0], abs=1e-5)
    assert whitened(values, live, unbiased=False)[3] == pytest.approx(2 / math.sqrt(8 / 3), abs=1e-5)
    assert whitened(values[2:4], live[2:4]).tolist() == [0.0, 3.0]
    assert whitened(np.array([2.0, 2.0, 2.0]), np.ones(3, dtype=bool)).tolist() == [0.0, 0.0, 0.0]


def test_weighted_whitening_by_hand() -> None:
    # of 0 with weight 2 and 3 with weight 1: mean 1, squares 2 + 4; an advantage that is not live has no weight
    values, live = np.array([0.0, 9.0, 3.0]), np.array([True, False, True])
    weights = np.array([2.0, 7.0, 1.0])
    unbiased, biased = (
        whitened(values, live, weights=weights),
        whitened(values, live, unbiased=False, weights=weights),
    )
    assert unbiased.tolist() == pytest.approx([-1 / math.sqrt(3), 0.0, 2 / math.sqrt(3)], abs=1e-5)
    assert biased.tolist() == pytest.approx([-1 / math.sqrt(2), 0.0, 2 / math.sqrt(2)], abs=1e-5)


@pytest.mark.parametrize(("unbiased", "deviation"), [(True, math.sqrt(3)), (False, math.sqrt(2))])
def test_reinforce_plus_plus_baseline_whitens_over_tokens(unbiased: bool, deviation: float) -> None:
    """Rewards 0 and 3 of one group, the first one's answer with two tokens: advantages -1.5 and 1.5."""
    hooks = make_hooks(ReinforcePlusPlusBaseline(unbiased_std=unbiased))
    compared = ComparedRewards(
        np.array([0.0, 3.0]), np.array([0, 0]), ["a"], np.array([True]), np.array([2.0, 1.0])
    )
    found = hooks.advantages(compared, {})
    # weights 2 and 1: mean -0.5; squares 2 x 1 + 4
    assert found == pytest.approx([-1 / deviation, 2 / deviation], abs=1e-5)


def test_an_advantage_of_zero_in_a_telling_group_counts_in_whitening() -> None:
    live = np.ones(3, dtype=bool)
    assert whitened(np.array([-1.0, 0.0, 4.0]), live)[1] == pytest.approx(-1 / math.sqrt(7), abs=1e-5)


def test_the_filter_measures_rounding_as_no_deviation() -> None:
    rewards = np.array([0.1 + 0.2, 0.3, 0.0, 0.0, 0.0, 1.0])
    groups = np.array([0, 0, 1, 1, 2, 2])
    assert left_out(rewards, groups, GroupFilter("std", low=1e-30)).tolist() == [True, True, False]
    half = GroupFilter("std", high=0.5, unbiased=False)
    assert left_out(rewards, groups, half).tolist() == [False, False, False]
    assert left_out(rewards, groups, GroupFilter("std", high=0.5)).tolist() == [False, False, True]

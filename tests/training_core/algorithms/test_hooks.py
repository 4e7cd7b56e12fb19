"""Reshaped rewards and filtered groups, by hand."""

import numpy as np
import pytest

from training_core.algorithms.at_grpo import GroupFilter, left_out
from training_core.algorithms.config import AtGrpo
from training_core.algorithms.hooks import RESHAPERS, Moment, Shape, min_max

SHAPE = Shape(discount=0.5, threshold=1.0, weight=2.0)
REWARDS = np.array([0.0, 1.0, 4.0])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("none", [0.0, 1.0, 4.0]),
        ("discount", [0.0, 0.25, 1.0]),  # third turn: 0.5 squared
        ("turn_weighted", [0.0, 0.75, 3.0]),  # the third of four
        ("binary", [0.0, 0.0, 1.0]),  # at the threshold is not above it
        ("normalised", [0.0, 1.0, 4.0]),  # left to min_max, which sees the whole group
        ("shaped", [-6.0, -4.0, 2.0]),  # r + 2 x (0.5 r - 3)
    ],
)
def test_by_hand(name: str, wanted: list[float]) -> None:
    found = RESHAPERS[name](REWARDS, Moment(turn=3, turns=4, before=3.0), SHAPE)  # type: ignore[index]
    assert found.tolist() == pytest.approx(wanted)


def test_the_first_turn_keeps_its_whole_reward_under_a_discount() -> None:
    assert RESHAPERS["discount"](REWARDS, Moment(1, 4, 0.0), SHAPE).tolist() == REWARDS.tolist()


def test_shaping_without_discount_sums_to_the_last_reward() -> None:
    """0.2, 0.5, 0.9 in turn: the additions are 0.2, 0.3, 0.4, together 0.9."""
    shape = Shape(discount=1.0, threshold=0.0, weight=1.0)
    earned, before = [0.2, 0.5, 0.9], [0.0, 0.2, 0.5]
    added = [
        RESHAPERS["shaped"](np.array([reward]), Moment(place + 1, 3, last), shape)[0] - reward
        for place, (reward, last) in enumerate(zip(earned, before, strict=True))
    ]
    assert added == pytest.approx([0.2, 0.3, 0.4])


def test_min_max_is_within_each_group() -> None:
    rewards = np.array([1.0, 2.0, 3.0, 50.0, 50.0, -4.0, 4.0])
    groups = np.array([0, 0, 0, 1, 1, 2, 2])
    assert min_max(rewards, groups).tolist() == [0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 1.0]


def test_every_choice_of_the_config_has_a_reshaper() -> None:
    for name in RESHAPERS:
        assert AtGrpo(reshape=name).reshape == name


# means 2, 5, 0.5, 10; unbiased deviations 1, 0, 0.7071, 1.4142
VALUES = np.array([1.0, 2.0, 3.0, 5.0, 5.0, 0.0, 1.0, 9.0, 11.0])
OF = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3])


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        (GroupFilter(), []),
        (GroupFilter("none", low=9.0, ratio=0.5), []),
        (GroupFilter("mean", low=1.0, high=6.0), [2, 3]),
        (GroupFilter("std", low=0.5), [1]),
        (GroupFilter("std", low=0.5, high=1.2), [1, 3]),
        (GroupFilter("std", ratio=0.5), [1, 2]),
        (GroupFilter("std", low=0.5, ratio=0.5), [1, 2]),  # of the three that are left, one
        (GroupFilter("mean", low=-9.0, ratio=0.25), [2]),
    ],
)
def test_what_a_filter_leaves_out(how: GroupFilter, wanted: list[int]) -> None:
    assert np.flatnonzero(left_out(VALUES, OF, how)).tolist() == wanted


def test_equal_groups_are_left_out_in_order() -> None:
    out = left_out(np.ones(8), np.repeat(np.arange(4), 2), GroupFilter("std", ratio=0.5))
    assert out.tolist() == [True, True, False, False]


def test_equal_groups_between_others_are_left_out_in_order() -> None:
    """Of 100 groups every second one has no deviation; numpy's default sort does not keep the order of so many."""
    values = np.tile([0.0, 2.0, 1.0, 1.0], 50)
    out = left_out(values, np.repeat(np.arange(100), 2), GroupFilter("std", ratio=0.25))
    assert np.flatnonzero(out).tolist() == list(range(1, 50, 2))

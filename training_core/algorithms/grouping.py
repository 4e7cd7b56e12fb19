"""Statistics of groups from their rewards: which give gradient, and how hard their tasks are."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from training_core.algorithms.advantages import Floats, Ints, has_variance, standard_deviations


@dataclass
class GroupCounts:
    """Groups of one role in an iteration. A group without variance is either too easy or too hard."""

    total: int = 0
    zero_variance: int = 0
    """All candidates have the same reward (as in a group of one): nothing to compare."""
    too_easy: int = 0
    """Of those: all rewards are above 0, so the task is too easy for the role."""
    too_hard: int = 0
    """Of those: no reward is above 0, so no candidate shows how to improve."""
    filtered: int = 0
    """Excluded by algorithm.group_filter, with or without variance."""


def count_groups(rewards: Floats, groups: Ints) -> GroupCounts:
    """Counts over rewards (N,) whose group is `groups` (N,), whole numbers from 0, each one used."""
    varied = has_variance(rewards, groups)
    highest = np.full(len(varied), -np.inf)
    np.maximum.at(highest, groups, rewards)
    equal = ~varied
    easy = int((equal & (highest > 0)).sum())
    return GroupCounts(len(varied), int(equal.sum()), easy, int(equal.sum()) - easy)


@dataclass(frozen=True)
class GroupFilter:
    """Excludes groups from the loss by a statistic of their rewards."""

    by: Literal["none", "mean", "std"] = "none"
    low: float = 0.0
    high: float = np.inf
    ratio: float = 0.0
    unbiased: bool = True
    """As in Normalisation."""


def left_out(rewards: Floats, groups: Ints, how: GroupFilter) -> NDArray[np.bool_]:
    """Per group (G,) of rewards (N,): whether the filter excludes it.

    The statistic is the mean or the standard deviation of its rewards (0 for a group of one or of equal rewards).
    Excludes groups below `low` or above `high`, and of the others the lowest share `ratio`, rounded down (ties: the
    first).
    """
    varied = has_variance(rewards, groups)
    count = len(varied)
    if how.by == "none":
        return np.zeros(count, dtype=np.bool_)
    if how.by == "mean":
        measure = np.bincount(groups, weights=rewards, minlength=count) / np.bincount(groups, minlength=count)
    else:
        measure = np.zeros(count)
        measure[groups] = standard_deviations(rewards, groups, unbiased=how.unbiased)
        measure[~varied] = 0.0
    out: NDArray[np.bool_] = (measure < how.low) | (measure > how.high)
    remaining = np.flatnonzero(~out)
    least = remaining[np.argsort(measure[remaining], kind="stable")[: int(how.ratio * len(remaining))]]
    out[least] = True
    return out

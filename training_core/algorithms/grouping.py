"""What groups tell by their rewards: which can be learnt from, and how hard their tasks are."""

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
    """All candidates earned the same (a group of one, too): nothing to compare."""
    too_easy: int = 0
    """Of those: all earned something (reward above 0), so the task asks too little of the role."""
    too_hard: int = 0
    """Of those: none earned anything (reward 0 or below), so no candidate shows the way."""
    filtered: int = 0
    """Left out by algorithm.group_filter, with variance or without."""


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
    """Which groups are left out of learning, by a measure of their rewards."""

    by: Literal["none", "mean", "std"] = "none"
    low: float = 0.0
    high: float = np.inf
    ratio: float = 0.0
    unbiased: bool = True
    """As in Normalisation."""


def left_out(rewards: Floats, groups: Ints, how: GroupFilter) -> NDArray[np.bool_]:
    """Per group (G,) of rewards (N,): whether the filter leaves it out.

    Its measure is the mean, or the standard deviation (0 for a group of one or of equal rewards), of its rewards. Left out is
    what lies below `low` or above `high`, and of the others the share `ratio`, rounded down, that measures least (ties: the
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
    kept = np.flatnonzero(~out)
    least = kept[np.argsort(measure[kept], kind="stable")[: int(how.ratio * len(kept))]]
    out[least] = True
    return out

"""What groups tell by their rewards: which can be learnt from, and how hard their tasks are."""

from dataclasses import dataclass

import numpy as np

from training_core.algorithms.advantages import Floats, Ints, has_variance


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


def count_groups(rewards: Floats, groups: Ints) -> GroupCounts:
    """Counts over rewards (N,) whose group is `groups` (N,), whole numbers from 0, each one used."""
    varied = has_variance(rewards, groups)
    highest = np.full(len(varied), -np.inf)
    np.maximum.at(highest, groups, rewards)
    equal = ~varied
    easy = int((equal & (highest > 0)).sum())
    return GroupCounts(len(varied), int(equal.sum()), easy, int(equal.sum()) - easy)

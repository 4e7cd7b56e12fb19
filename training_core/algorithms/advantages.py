"""Advantages from grouped rewards.

N candidates in all; a group is the candidates that share one state. AT-GRPO (arXiv 2510.11062) takes the group to be
(task, agent, turn) and A = (R - mean) / (std + 1e-6) within it, as GRPO does (arXiv 2402.03300, equation 3). Arrays of
numpy, so that the process that forms groups needs no torch.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

EPSILON = 1e-6
_ROUNDING = 1e-9
Level = Literal["group", "batch", "none"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Normalisation:
    """Over what mean and standard deviation are taken."""

    mean_level: Level = "group"
    std_level: Level = "group"
    leave_one_out: bool = False
    """Leave a candidate's own reward out of its mean (RLOO, arXiv 2402.14740)."""


def normalised_advantages(rewards: Floats, groups: Ints, how: Normalisation) -> Floats:
    """Advantages (N,) of rewards (N,) whose group is `groups` (N,), whole numbers from 0.

    Standard deviations are unbiased. Where a group has one member, or rewards that are all equal, and the mean is
    taken over groups, the advantage is exactly 0.
    """
    everyone = np.zeros_like(groups)
    centred = rewards
    if how.mean_level != "none":
        over = groups if how.mean_level == "group" else everyone
        centred = rewards - _means(rewards, over, leave_one_out=how.leave_one_out)
    if how.std_level != "none":
        over = groups if how.std_level == "group" else everyone
        centred = centred / (_stds(rewards, over) + EPSILON)
    if how.mean_level == "group":
        centred = np.where(has_variance(rewards, groups)[groups], centred, 0.0)
    return centred


def whitened(advantages: Floats) -> Floats:
    """Advantages (N,) less their mean, over their unbiased standard deviation + 1e-6; those that are 0 stay 0.

    The second step of REINFORCE++-baseline (arXiv 2501.03262, section 4). Zeros are answers of groups that have nothing
    to compare: they are left out of the figures, too.
    """
    live = advantages != 0
    if live.sum() < 2:
        return advantages
    found = advantages[live]
    whole = np.zeros_like(advantages)
    whole[live] = (found - found.mean()) / (found.std(ddof=1) + EPSILON)
    return whole


def has_variance(rewards: Floats, groups: Ints) -> NDArray[np.bool_]:
    """Per group (G,): whether it holds two different rewards.

    Rewards that differ by a billionth of the larger one at most are sums of the same parts in another order: equal.
    """
    count = int(groups.max()) + 1 if len(groups) else 0
    lowest, highest = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(lowest, groups, rewards)
    np.maximum.at(highest, groups, rewards)
    return np.asarray(
        highest - lowest > _ROUNDING * np.maximum(np.abs(highest), np.abs(lowest)), dtype=np.bool_
    )


def _sums(values: Floats, groups: Ints) -> tuple[Floats, Floats]:
    """Sum and size of each value's group, both (N,)."""
    totals = np.bincount(groups, weights=values)
    sizes = np.bincount(groups)
    return totals[groups].astype(np.float64), sizes[groups].astype(np.float64)


def _means(rewards: Floats, groups: Ints, *, leave_one_out: bool) -> Floats:
    totals, sizes = _sums(rewards, groups)
    if not leave_one_out:
        return totals / sizes
    return np.where(sizes > 1, (totals - rewards) / np.maximum(sizes - 1, 1), rewards)


def _stds(rewards: Floats, groups: Ints) -> Floats:
    """Unbiased standard deviation of each candidate's group (N,); 0 for a group of one."""
    totals, sizes = _sums(rewards, groups)
    squares, _ = _sums((rewards - totals / sizes) ** 2, groups)
    return np.asarray(np.sqrt(squares / np.maximum(sizes - 1, 1)))

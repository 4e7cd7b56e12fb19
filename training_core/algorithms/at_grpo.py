"""AT-GRPO: advantages from grouped rewards, and statistics of the groups: which give gradient, and how hard their tasks are.

N candidates in all; a group is the candidates that share one state. AT-GRPO (arXiv 2510.11062) uses the group (task, agent, turn) and
A = (R - mean) / (std + 1e-6) within it, as GRPO does (arXiv 2402.03300, equation 3); other algorithms choose other sets by
Normalisation. Uses numpy arrays, so the process that forms groups does not need torch.
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
    """The sets over which mean and standard deviation are computed."""

    mean_level: Level = "group"
    std_level: Level = "group"
    leave_one_out: bool = False
    """Exclude a candidate's own reward from its mean (RLOO, arXiv 2402.14740)."""
    unbiased: bool = True
    """Divide squared deviations by n - 1 (torch.std) rather than by n."""
    drop_equal: bool = True
    """A group of equal rewards has advantage 0 even if neither mean nor deviation is computed per group."""


def informative_groups(rewards: Floats, groups: Ints, how: Normalisation) -> NDArray[np.bool_]:
    """Per group (G,): whether its candidates get advantages. Losses, filters, metrics and sampling all use this
    criterion.

    Rewards (N,) are those compared: mixed, reshaped, less length penalties. A group of one, or of equal rewards, gets
    none. The exception is an algorithm without statistics per group (REINFORCE++, PPO, RAE; mean and deviation over
    the batch or unused) that includes these groups (`drop_equal` is False): all its groups get advantages.
    """
    if not how.drop_equal and "group" not in (how.mean_level, how.std_level):
        return np.ones(_count(groups), dtype=np.bool_)
    return has_variance(rewards, groups)


def normalised_advantages(
    rewards: Floats, groups: Ints, how: Normalisation, weights: Floats | None = None
) -> Floats:
    """Advantages (N,) of rewards (N,) whose group is `groups` (N,), whole numbers from 0.

    `weights` (N,) weight each reward in batch statistics: by its number of tokens if every token is an action.

    The advantage is exactly 0 in groups without `informative_groups`, independent of the normalisation. A batch whose
    rewards are all equal is divided by 1, as AReaL does for a group of one: the divisor is never the 1e-6 alone.
    """
    everyone = np.zeros_like(groups)
    centred = rewards
    if how.mean_level != "none":
        over, counts = (groups, None) if how.mean_level == "group" else (everyone, weights)
        centred = rewards - _means(rewards, over, counts, leave_one_out=how.leave_one_out)
    if how.std_level != "none":
        over, counts = (groups, None) if how.std_level == "group" else (everyone, weights)
        centred = centred / divisors(rewards, over, unbiased=how.unbiased, weights=counts)
    return np.where(informative_groups(rewards, groups, how)[groups], centred, 0.0)


def whitened(
    advantages: Floats, live: NDArray[np.bool_], *, unbiased: bool = True, weights: Floats | None = None
) -> Floats:
    """Advantages (N,) minus their mean, divided by their standard deviation + 1e-6.

    The second step of REINFORCE++-baseline (arXiv 2501.03262, section 4). Advantages that are not `live` (N,), of
    groups with nothing to compare, are excluded from the statistics and stay 0. If all are equal, the deviation is 1.
    `weights` (N,) as in `normalised_advantages`.
    """
    whole = np.zeros_like(advantages)
    live_advantages = advantages[live]
    if len(live_advantages) < 2:
        whole[live] = live_advantages
        return whole
    counts = weights[live] if weights is not None else None
    everyone = np.zeros(len(live_advantages), dtype=np.int64)
    means = _means(live_advantages, everyone, counts, leave_one_out=False)
    whole[live] = (live_advantages - means) / divisors(
        live_advantages, everyone, unbiased=unbiased, weights=counts
    )
    return whole


def has_variance(rewards: Floats, groups: Ints) -> NDArray[np.bool_]:
    """Per group (G,): whether it contains two different rewards.

    Rewards that differ by at most a billionth of the larger one count as equal: they are sums of the same parts in
    another order.
    """
    count = _count(groups)
    lowest, highest = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(lowest, groups, rewards)
    np.maximum.at(highest, groups, rewards)
    return np.asarray(
        highest - lowest > _ROUNDING * np.maximum(np.abs(highest), np.abs(lowest)), dtype=np.bool_
    )


def divisors(rewards: Floats, groups: Ints, *, unbiased: bool, weights: Floats | None = None) -> Floats:
    """Standard deviation + 1e-6 of each candidate's group (N,); 1 if the group's rewards are equal."""
    stds = standard_deviations(rewards, groups, unbiased=unbiased, weights=weights)
    return np.where(has_variance(rewards, groups)[groups], stds + EPSILON, 1.0)


def standard_deviations(
    rewards: Floats, groups: Ints, *, unbiased: bool, weights: Floats | None = None
) -> Floats:
    """Standard deviation of each candidate's group (N,); 0 for a group of one."""
    totals, sizes = _sums(rewards, groups, weights)
    squares, _ = _sums((rewards - totals / np.maximum(sizes, 1)) ** 2, groups, weights)
    return np.asarray(np.sqrt(squares / np.maximum(sizes - unbiased, 1)))


def _count(groups: Ints) -> int:
    return int(groups.max()) + 1 if len(groups) else 0


def _sums(values: Floats, groups: Ints, weights: Floats | None) -> tuple[Floats, Floats]:
    """Sum and size of each value's group, both (N,)."""
    counts = np.ones_like(values) if weights is None else weights
    totals = np.bincount(groups, weights=values * counts)
    sizes = np.bincount(groups, weights=counts)
    return totals[groups].astype(np.float64), sizes[groups].astype(np.float64)


def _means(rewards: Floats, groups: Ints, weights: Floats | None, *, leave_one_out: bool) -> Floats:
    totals, sizes = _sums(rewards, groups, weights)
    if not leave_one_out:
        return np.asarray(totals / np.maximum(sizes, 1))
    return np.where(sizes > 1, (totals - rewards) / np.maximum(sizes - 1, 1), rewards)


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

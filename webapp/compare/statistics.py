"""Statistics for few runs: interquartile mean, stratified bootstrap intervals, probability of improvement.

As defined by Agarwal et al. (Deep Reinforcement Learning at the Edge of the Statistical Precipice, NeurIPS 2021) and
computed by their library rliable. Scores are arrays (runs, tasks); one task is an array (runs, 1).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
REPEATS = 2000
LEVEL = 0.95
BLOCK = 1 << 17
"""Numbers that are resampled at once: as many as fit the processor's cache."""


@dataclass(frozen=True)
class Estimate:
    """A value and the bounds of its interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: Scores) -> Any:
    """Mean of the middle half of all scores: a quarter of them, rounded down, is trimmed at each end.

    Scores (..., runs, tasks) -> one value for each leading index.
    """
    flat = scores.reshape(*scores.shape[:-2], -1)
    cut, last = int(0.25 * flat.shape[-1]), flat.shape[-1] - 1
    # Only the ends must be apart from the middle half; a whole order of many runs takes five times as long.
    apart = np.partition(flat, (cut, last - cut), axis=-1)
    return apart[..., cut : last - cut + 1].mean(axis=-1)


def probability_of_improvement(ours: Scores, theirs: Scores) -> float:
    """P(a run of `ours` is better than one of `theirs`), ties counting half, averaged over tasks (Mann-Whitney's U).

    ours (n, tasks), theirs (m, tasks). Raises ValueError if the numbers of tasks differ.
    """
    return float(_wins(ours, theirs).mean())


def _wins(ours: Scores, theirs: Scores) -> Scores:
    """(tasks, n, m): 1 where a run of `ours` is better, 0.5 where they are equal."""
    if ours.shape[1] != theirs.shape[1]:
        raise ValueError(f"{ours.shape[1]} tasks cannot be compared with {theirs.shape[1]}")
    left, right = ours.T[:, :, None], theirs.T[:, None, :]
    return np.asarray((left > right) + 0.5 * (left == right), dtype=np.float64)


def bootstrap(scores: Scores, statistic: Callable[[Scores], Any], seed: int = 0) -> Estimate:
    """The statistic with its percentile interval over REPEATS stratified resamples: runs are resampled per task.

    statistic: scores (..., runs, tasks) -> one value for each leading index.
    """
    runs, tasks = scores.shape
    random, block = np.random.default_rng(seed), max(1, BLOCK // scores.size)
    sizes = [min(block, REPEATS - first) for first in range(0, REPEATS, block)]
    resampled = [
        statistic(np.take_along_axis(scores[None], random.integers(0, runs, (size, runs, tasks)), axis=1))
        for size in sizes
    ]
    return _estimate(float(statistic(scores)), np.concatenate(resampled))


def bootstrap_improvement(ours: Scores, theirs: Scores, seed: int = 0) -> Estimate:
    """`probability_of_improvement` with its interval; both sides are resampled.

    The counts of each run weight the table of wins, so that a resample needs no separate table.
    """
    random, wins = np.random.default_rng(seed), _wins(ours, theirs)
    total = np.zeros(REPEATS)
    for table in wins:
        left, right = (_counts_drawn(count, random) for count in table.shape)
        total += ((left @ table) * right).sum(axis=1) / table.size
    return _estimate(float(wins.mean()), total / len(wins))


def _counts_drawn(runs: int, random: np.random.Generator) -> Scores:
    """(REPEATS, runs): count of each run in a resample."""
    return np.asarray(random.multinomial(runs, np.full(runs, 1 / runs), REPEATS), dtype=np.float64)


def _estimate(value: float, drawn: Scores) -> Estimate:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))

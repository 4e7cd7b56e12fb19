"""What may be said of a few runs: interquartile mean, stratified bootstrap intervals, probability of improvement.

As Agarwal et al. define them (Deep Reinforcement Learning at the Edge of the Statistical Precipice, NeurIPS 2021) and
their library rliable computes them. Scores are arrays (runs, tasks); one task is an array (runs, 1).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
REPEATS = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value and the bounds of its interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: Scores) -> float:
    """Mean of the middle half of all scores: a quarter of them, rounded down, is cut off at each end."""
    ordered = np.sort(scores, axis=None)
    cut = int(0.25 * ordered.size)
    return float(ordered[cut : ordered.size - cut].mean())


def probability_of_improvement(ours: Scores, theirs: Scores) -> float:
    """P(a run of `ours` is better than one of `theirs`), ties counting half, averaged over tasks (Mann-Whitney's U).

    ours (n, tasks), theirs (m, tasks). Raises ValueError where the numbers of tasks differ.
    """
    if ours.shape[1] != theirs.shape[1]:
        raise ValueError(f"{ours.shape[1]} tasks cannot be compared with {theirs.shape[1]}")
    left, right = ours[:, None, :], theirs[None, :, :]
    return float(((left > right) + 0.5 * (left == right)).mean())


def bootstrap(scores: Scores, statistic: Callable[[Scores], float], seed: int = 0) -> Estimate:
    """The statistic with its percentile interval over REPEATS stratified resamples: runs drawn again task by task."""
    random = np.random.default_rng(seed)
    return _estimate(statistic(scores), [statistic(_resampled(scores, random)) for _ in range(REPEATS)])


def bootstrap_improvement(ours: Scores, theirs: Scores, seed: int = 0) -> Estimate:
    """`probability_of_improvement` with its interval; both sides are resampled."""
    random = np.random.default_rng(seed)
    drawn = [
        probability_of_improvement(_resampled(ours, random), _resampled(theirs, random))
        for _ in range(REPEATS)
    ]
    return _estimate(probability_of_improvement(ours, theirs), drawn)


def _resampled(scores: Scores, random: np.random.Generator) -> Scores:
    runs, tasks = scores.shape
    return np.take_along_axis(scores, random.integers(0, runs, (runs, tasks)), axis=0)


def _estimate(value: float, drawn: list[float]) -> Estimate:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))

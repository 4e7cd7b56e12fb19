"""Groups of runs compared by one value of one metric: interquartile mean, stratified bootstrap intervals, probability of improvement.

Statistics for few runs as defined by Agarwal et al. (Deep Reinforcement Learning at the Edge of the Statistical Precipice, NeurIPS 2021)
and computed by their library rliable. Scores are arrays (runs, tasks); one task is an array (runs, 1).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webapp.agents.rewards import shaped_label
from webapp.compare.choice import (
    MOST_RUNS,
    Choice,
    RunGroup,
    best_groups,
    configs_of,
    groups_make,
    last_points,
)
from webapp.compare.curves import lines_read
from webapp.metrics.expressions import expression_read
from webapp.runs.models import Run

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


MOST_PAIRED = 8
"""Maximum number of groups for pairwise comparisons."""


@dataclass(frozen=True)
class Score:
    """A run's value and its step."""

    value: float
    step: int


def runs_compare(runs: Sequence[Run], choice: Choice, key: str) -> dict[str, Any]:
    """Return {"key", "by", "at", "step", "groups": [...], "omitted": number of groups that are not compared, "pairs": [...],
    "without": ids of runs without a finite value}.

    A group has "first_step" and "last_step", the range of the steps of its values. Intervals need two runs: null for one.
    Of too many groups those of `best_groups` are compared. No pairs for more than MOST_PAIRED groups or MOST_RUNS runs.
    Raises ConfigError (too many runs that are not grouped).
    """
    best = best_groups(runs, choice, key)
    scores, step = _scores(best.runs, key, choice.at)
    groups = groups_make([run for run in best.runs if run.pk in scores], choice.by)
    tables = {
        group.key: np.array([[scores[run.pk].value] for run in group.runs], dtype=float) for group in groups
    }
    paired = groups if len(groups) <= MOST_PAIRED and len(runs) <= MOST_RUNS else []
    return {
        "key": key,
        "label": shaped_label(key, configs_of(runs)),
        "by": choice.by,
        "at": choice.at,
        "step": step,
        "groups": [_group_facts(group, tables[group.key], scores) for group in groups],
        "omitted": best.omitted,
        "top": choice.top,
        "ranked": expression_read(key).single,
        "pairs": [_pair(one.key, other.key, tables) for one, other in combinations(paired, 2)],
        "without": [run.pk for run in best.runs if run.pk not in scores],
    }


def _scores(runs: Sequence[Run], key: str, at: str) -> tuple[dict[str, Score], int | None]:
    """Return each run's value, and the requested step (None for the last values)."""
    if at == "last" and expression_read(key).single:
        return {run: Score(*last) for run, last in last_points(runs, key).items()}, None
    lines = lines_read(runs, key)
    if at == "last":
        return {run: Score(float(line.y[-1]), int(line.x[-1])) for run, line in lines.items()}, None
    shared = int(min((line.x[-1] for line in lines.values()), default=0))
    step = shared if at == "common" else int(at)
    places = {run: int(np.searchsorted(line.x, step, side="right")) - 1 for run, line in lines.items()}
    return {
        run: Score(float(lines[run].y[index]), int(lines[run].x[index]))
        for run, index in places.items()
        # A run that has not reached this step has no value there.
        if index >= 0 and lines[run].x[-1] >= step
    }, step


def _group_facts(group: RunGroup, table: Scores, scores: Mapping[str, Score]) -> dict[str, Any]:
    several, steps = len(group.runs) > 1, [scores[run.pk].step for run in group.runs]
    return {
        "group": group.key,
        "name": group.label,
        "tone": group.tone,
        "runs": [run.pk for run in group.runs],
        "n": len(group.runs),
        "first_step": min(steps),
        "last_step": max(steps),
        "mean": float(table.mean()),
        "sd": float(table.std(ddof=1)) if several else None,
        "iqm": float(interquartile_mean(table)),
        "interval": _bounds(bootstrap(table, interquartile_mean)) if several else None,
    }


def _pair(left: str, right: str, tables: Mapping[str, Scores]) -> dict[str, Any]:
    """Return the probability that a run of one group is better than a run of the other."""
    ours, theirs = tables[left], tables[right]
    interval = None
    if min(len(ours), len(theirs)) > 1:
        interval = _bounds(bootstrap_improvement(ours, theirs))
    probability = probability_of_improvement(ours, theirs)
    return {"better": left, "than": right, "probability": probability, "interval": interval}


def _bounds(estimate: Estimate) -> list[float]:
    return [estimate.low, estimate.high]


def figures_of(comparison: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `runs_compare` with "matrix" (row better than column; None on the diagonal), "single" (all groups
    have one run, so there is no matrix) and "uneven": whether the values are from different steps.
    """
    pairs = {(pair["better"], pair["than"]): pair for pair in comparison["pairs"]}
    groups = comparison["groups"]
    rows = [
        {"group": one, "cells": [_cell(one["group"], other["group"], pairs) for other in groups]}
        for one in groups
    ]
    repeated = any(group["n"] > 1 for group in groups)
    return comparison | {
        "matrix": rows if pairs and repeated else [],
        "single": bool(pairs) and not repeated,
        "uneven": _uneven(comparison),
    }


def _cell(one: str, other: str, pairs: dict[tuple[str, str], Any]) -> dict[str, Any] | None:
    if pair := pairs.get((one, other)):
        return {"probability": pair["probability"], "interval": pair["interval"]}
    if pair := pairs.get((other, one)):
        bounds = pair["interval"]
        turned = [1 - bounds[1], 1 - bounds[0]] if bounds else None
        return {"probability": 1 - pair["probability"], "interval": turned}
    return None


def _uneven(comparison: dict[str, Any]) -> bool:
    steps = {step for group in comparison["groups"] for step in (group["first_step"], group["last_step"])}
    return len(steps) > 1

"""Comparison of groups of runs by one value of one metric."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from webapp.agents.rewards import shaped_label
from webapp.compare.forms import Choice
from webapp.compare.groups import RunGroup, best_groups, groups_make, last_points
from webapp.compare.lines import lines_read
from webapp.compare.selection import MOST_RUNS, configs_of
from webapp.compare.statistics import (
    Scores,
    bootstrap,
    bootstrap_improvement,
    interquartile_mean,
    probability_of_improvement,
)
from webapp.metrics.expressions import expression_read
from webapp.runs.models import Run

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
        "interval": _bounds(asdict(bootstrap(table, interquartile_mean))) if several else None,
    }


def _pair(left: str, right: str, tables: Mapping[str, Scores]) -> dict[str, Any]:
    """Return the probability that a run of one group is better than a run of the other."""
    ours, theirs = tables[left], tables[right]
    interval = None
    if min(len(ours), len(theirs)) > 1:
        interval = _bounds(asdict(bootstrap_improvement(ours, theirs)))
    probability = probability_of_improvement(ours, theirs)
    return {"better": left, "than": right, "probability": probability, "interval": interval}


def _bounds(estimate: Mapping[str, float]) -> list[float]:
    return [estimate["low"], estimate["high"]]

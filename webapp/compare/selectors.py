"""Groups of runs, compared by the last value of one metric."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np

from training_core.errors import ConfigError
from webapp.accounts.permissions import Person
from webapp.compare.statistics import Scores, bootstrap, bootstrap_improvement, interquartile_mean
from webapp.metrics.models import Series
from webapp.runs.models import Run
from webapp.runs.selectors import run_get, runs_list

MOST_RUNS = 500
MOST_GROUPS = 8
"""Of which every pair is compared."""


def runs_compare(
    user: Person, run_ids: Sequence[str], filter_text: str, key: str, by: str = "family"
) -> dict[str, Any]:
    """{"key", "by", "groups": [...], "pairs": [...], "without": ids of runs that have no finite value}.

    by: "family" (all but the seed), "run", or a dotted config field. Intervals need two runs: null for one.
    Raises ConfigError (nothing chosen, bad filter, too many), Http404 for runs that the user may not see.
    """
    runs = _chosen(user, run_ids, filter_text)
    found = Series.objects.filter(run__in=runs, key=key).values_list("run_id", "last_value")
    values = {run: value for run, value in found if isfinite(value)}
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.pk in values:
            groups.setdefault(_group(run, by), []).append(run)
    if len(groups) > MOST_GROUPS:
        raise ConfigError(
            {"by": f"{len(groups)} groups; at most {MOST_GROUPS} are compared: name fewer runs"}
        )
    scores = {name: np.array([[values[run.pk]] for run in members]) for name, members in groups.items()}
    return {
        "key": key,
        "by": by,
        "groups": [_group_facts(name, members, scores[name]) for name, members in groups.items()],
        "pairs": [_pair(left, right, scores) for left, right in combinations(scores, 2)],
        "without": [run.pk for run in runs if run.pk not in values],
    }


def _chosen(user: Person, run_ids: Sequence[str], filter_text: str) -> list[Run]:
    runs = [run_get(user, run_id) for run_id in dict.fromkeys(run_ids[: MOST_RUNS + 1])]
    if filter_text:
        known = {run.pk for run in runs}
        runs += [
            run for run in runs_list(user, {"filter": filter_text})[: MOST_RUNS + 1] if run.pk not in known
        ]
    if not 0 < len(runs) <= MOST_RUNS:
        raise ConfigError({"runs": f"choose 1 to {MOST_RUNS} runs, by id or by a filter"})
    return runs


def _group(run: Run, by: str) -> str:
    if by == "run":
        return run.pk
    if by == "family":
        return run.family or run.pk
    value: Any = run.config
    for part in by.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "none" if value is None else str(value)[:200]


def _group_facts(name: str, members: list[Run], scores: Scores) -> dict[str, Any]:
    several = len(members) > 1
    return {
        "group": name,
        "name": members[0].name,
        "runs": [run.pk for run in members],
        "n": len(members),
        "mean": float(scores.mean()),
        "sd": float(scores.std(ddof=1)) if several else None,
        "iqm": interquartile_mean(scores),
        "interval": _bounds(asdict(bootstrap(scores, interquartile_mean))) if several else None,
    }


def _pair(left: str, right: str, scores: Mapping[str, Scores]) -> dict[str, Any]:
    """How probably a run of the one is better than one of the other."""
    estimate = asdict(bootstrap_improvement(scores[left], scores[right]))
    several = min(len(scores[left]), len(scores[right])) > 1
    return {
        "better": left,
        "than": right,
        "probability": estimate["value"],
        "interval": _bounds(estimate) if several else None,
    }


def _bounds(estimate: Mapping[str, float]) -> list[float]:
    return [estimate["low"], estimate["high"]]

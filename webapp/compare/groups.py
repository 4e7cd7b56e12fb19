"""Assignment of runs to groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Any

from django.db import connection

from training_core.errors import ConfigError
from webapp.common.tones import run_tone
from webapp.compare.forms import Choice
from webapp.compare.selection import config_value, configs_by_run
from webapp.metrics.expressions import expression_read
from webapp.runs.config_differences import flatten
from webapp.runs.families import ASIDE
from webapp.runs.models import Run

MOST_GROUPS = 24
GROUP_BY = "group by everything except the seed or by a config field, or name fewer runs"
_LASTS = "SELECT run_id, last_value, last_step FROM metrics_series WHERE run_id = ANY(%s) AND key = %s"
TONES: tuple[int | str, ...] = (1, 2, 3, 4, 5, 6, 0, "accent")
"""Colours of groups by index; a run has its own colour. Further lines of a colour are dashed."""
ASIDE_PATHS = {f"run.{name}" for name in ASIDE}
SAID = 3
"""Number of fields in a label that distinguish groups of the same name."""


@dataclass
class RunGroup:
    """Runs that are compared as one unit."""

    key: str
    label: str
    tone: int | str
    runs: list[Run]


@dataclass(frozen=True)
class BestGroups:
    """The runs of the groups that are drawn, and the number of further groups."""

    runs: list[Run]
    omitted: int


def best_groups(runs: Sequence[Run], choice: Choice, key: str) -> BestGroups:
    """Return the runs of at most MOST_GROUPS groups: those with the highest (or lowest: `choice.top`) mean of the last values of the
    metric; of an expression, those of the first runs.

    Runs are in their order. Raises ConfigError for more than MOST_GROUPS runs that are not grouped.
    """
    members = _members(runs, choice.by)
    if len(members) <= MOST_GROUPS:
        return BestGroups(list(runs), 0)
    if choice.by == "run":
        raise ConfigError({"by": f"{len(members)} lines; at most {MOST_GROUPS} are drawn: {GROUP_BY}"})
    drawn = list(members)[:MOST_GROUPS]
    if expression_read(key).single:
        lasts = last_points(runs, key)
        means = {
            group: fmean(lasts[run.pk][0] for run in some if run.pk in lasts)
            for group, some in members.items()
            if any(run.pk in lasts for run in some)
        }
        drawn = sorted(means, key=means.__getitem__, reverse=choice.top != "lowest")[:MOST_GROUPS]
    compared = {run.pk for group in drawn for run in members[group]}
    return BestGroups([run for run in runs if run.pk in compared], len(members) - len(drawn))


def last_points(runs: Sequence[Run], key: str) -> dict[str, tuple[float, int]]:
    """Return the last value of a metric, and its step, by run, for the runs with a finite one."""
    with connection.cursor() as cursor:
        cursor.execute(_LASTS, [[run.pk for run in runs], key])
        return {run: (value, step) for run, value, step in cursor.fetchall() if isfinite(value)}


def groups_make(runs: Iterable[Run], by: str) -> list[RunGroup]:
    """Group runs, in the order of their first runs. by: "family" (everything except the seed), "run", or a dotted config field.

    Raises ConfigError for more than MOST_GROUPS.
    """
    members = _members(runs, by)
    if len(members) > MOST_GROUPS:
        remedy = GROUP_BY if by == "run" else "group by a field with fewer values, or name fewer runs"
        raise ConfigError({"by": f"{len(members)} groups; at most {MOST_GROUPS} are compared: {remedy}"})
    labels = _labels(members, by)
    return [
        RunGroup(
            key, labels[key], run_tone(group[0].tone) if by == "run" else TONES[index % len(TONES)], group
        )
        for index, (key, group) in enumerate(members.items())
    ]


def _members(runs: Iterable[Run], by: str) -> dict[str, list[Run]]:
    members: dict[str, list[Run]] = {}
    for run in runs:
        members.setdefault(_key(run, by), []).append(run)
    return members


def _key(run: Run, by: str) -> str:
    if by == "run":
        return run.pk
    if by == "family":
        return run.family or run.pk
    value = config_value(run, by)
    return "none" if value is None else str(value)[:200]


def _labels(members: Mapping[str, list[Run]], by: str) -> dict[str, str]:
    """Return labels: the value of a field; for a run or family its name, with the fields that distinguish equal names."""
    if by not in ("run", "family"):
        return {key: f"{by.rpartition('.')[2]} = {key}" for key in members}
    names = {key: group[0].name for key, group in members.items()}
    labels: dict[str, str] = {}
    for name in dict.fromkeys(names.values()):
        same = [key for key in members if names[key] == name]
        labels |= _apart(name, {key: members[key][0] for key in same}, by)
    return {key: labels[key] for key in members}


def _apart(name: str, namesakes: Mapping[str, Run], by: str) -> dict[str, str]:
    if len(namesakes) == 1:
        return dict.fromkeys(namesakes, name)
    trees = configs_by_run(list(namesakes.values()))
    configs = {key: flatten(trees[run.pk]) for key, run in namesakes.items()}
    paths = [path for path in differing(list(configs.values())) if by == "run" or path not in ASIDE_PATHS]
    labels = {}
    for key, run in namesakes.items():
        parts = [f"{path.rpartition('.')[2]} {configs[key].get(path)}" for path in paths[:SAID]]
        labels[key] = " · ".join([name, *parts])
        if by == "run" or not parts:
            labels[key] += f" · {run.pk}"
    return labels


def differing(flat: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the paths that are missing or different in some of the flat configs, in their order."""
    paths = list(dict.fromkeys(path for config in flat for path in config))
    missing = object()
    return [
        path
        for path in paths
        if any(config.get(path, missing) != flat[0].get(path, missing) for config in flat)
    ]

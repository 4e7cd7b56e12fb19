"""Selection of runs and their assignment to groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import Http404

from training_core.errors import ConfigError
from webapp.common.tones import run_tone
from webapp.run_table.filters import runs_filter
from webapp.runs.config_differences import flatten
from webapp.runs.families import ASIDE
from webapp.runs.models import Run

MOST_RUNS = 500
MOST_GROUPS = 24
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


def runs_chosen(visible: QuerySet[Run], run_ids: Sequence[str], filter_text: str) -> list[Run]:
    """Return the named runs, in that order, then those that match the filter, newest first; archived ones only if requested.

    Raises ConfigError (none, too many, an invalid filter), Http404 for a run that is not visible.
    """
    wanted = list(dict.fromkeys(run_ids))[: MOST_RUNS + 1]
    by_id = {
        run.pk: run for run in visible.filter(pk__in=[run_id for run_id in wanted if "\0" not in run_id])
    }
    if missing := [run_id for run_id in wanted if run_id not in by_id]:
        raise Http404(f"Run '{missing[0]}' not found, or you do not have access.")
    runs = [by_id[run_id] for run_id in wanted]
    if filter_text:
        candidates = visible if "archived" in filter_text else visible.filter(archived=False)
        fitting = (
            runs_filter(candidates, filter_text).exclude(pk__in=list(by_id)).order_by("-created_at", "pk")
        )
        runs += list(fitting[: MOST_RUNS + 1])
    if not 0 < len(runs) <= MOST_RUNS:
        raise ConfigError({"runs": f"choose 1 to {MOST_RUNS} runs, by id or by a filter"})
    return runs


def groups_make(runs: Iterable[Run], by: str) -> list[RunGroup]:
    """Group runs, in the order of their first runs. by: "family" (everything except the seed), "run", or a dotted config field.

    Raises ConfigError for more than MOST_GROUPS.
    """
    members: dict[str, list[Run]] = {}
    for run in runs:
        members.setdefault(_key(run, by), []).append(run)
    if len(members) > MOST_GROUPS:
        raise ConfigError(
            {"by": f"{len(members)} groups; at most {MOST_GROUPS} are compared: name fewer runs"}
        )
    labels = _labels(members, by)
    return [
        RunGroup(
            key, labels[key], run_tone(group[0].tone) if by == "run" else TONES[index % len(TONES)], group
        )
        for index, (key, group) in enumerate(members.items())
    ]


def _key(run: Run, by: str) -> str:
    if by == "run":
        return run.pk
    if by == "family":
        return run.family or run.pk
    value: Any = run.config
    for part in by.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
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
    configs = {key: flatten(run.config) for key, run in namesakes.items()}
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

"""Runs by config fields and metrics: the table behind parallel coordinates with its brushes, and the fields in which configs differ."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite, log10
from typing import Any

from training_core.errors import ConfigError
from webapp.compare.choice import ASIDE_PATHS, Choice, groups_make, names_of
from webapp.metrics.models import Series
from webapp.metrics.names import is_metric, metric_read
from webapp.provenance.services import provenance_flat
from webapp.runs.configs import differing, flatten
from webapp.runs.models import Run
from webapp.runs.selectors import packages_of

RECORDED = ("packages.", "code.", "data.", "machine.")
"""Prefixes of fields that are not of the config, but of what the driver and the launch recorded."""
MOST_VALUES = 12
"""Maximum number of different values shown per group."""


def configs_differ(runs: Sequence[Run], by: str, everything: bool = False) -> dict[str, Any]:
    """Return {"groups": [{"group", "label", "tone", "n"}], "same": number of fields equal in all runs, "fields": [{"path",
    "same", "cells": [{"values": distinct values in the group, "more": number of omitted values, "absent": bool}]}]}.

    Includes the fields that differ, in the order of the config; with `everything` all fields. Versions of packages are
    fields below `packages`, the provenance below `code`, `data` and `machine`. Raises ConfigError for too many groups.
    """
    groups = groups_make(runs, by)
    flat = flat_configs(runs)
    different = set(differing(list(flat.values())))
    paths = list(dict.fromkeys(path for config in flat.values() for path in config))
    fields = [
        {
            "path": path,
            "same": path not in different,
            "cells": [_cell([flat[run.pk] for run in group.runs], path) for group in groups],
        }
        for path in paths
        if everything or path in different
    ]
    return {
        "groups": [
            {"group": group.key, "label": group.label, "tone": group.tone, "n": len(group.runs)}
            for group in groups
        ],
        "same": len(paths) - len(different),
        "fields": fields,
    }


def flat_configs(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return run -> dotted path -> value of its config; below `packages` the driver's package versions, below `code`, `data` and
    `machine` its provenance.
    """
    provenance = provenance_flat(runs)
    return {
        run.pk: flatten(run.config)
        | {f"packages.{name}": version for name, version in packages_of(run).items()}
        | provenance.get(run.pk, {})
        for run in runs
    }


def _cell(configs: Sequence[Mapping[str, Any]], path: str) -> dict[str, Any]:
    values: list[Any] = []
    for config in configs:
        if path in config and config[path] not in values:
            values.append(config[path])
    absent = any(path not in config for config in configs)
    return {"values": values[:MOST_VALUES], "more": max(0, len(values) - MOST_VALUES), "absent": absent}


def sections_of(difference: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Group the fields by the first part of their path: [{"name", "fields", "different"}]."""
    sections: dict[str, list[dict[str, Any]]] = {}
    for row in difference["fields"]:
        sections.setdefault(row["path"].split(".")[0], []).append(row)
    return [
        {"name": name, "fields": fields, "different": sum(not row["same"] for row in fields)}
        for name, fields in sections.items()
    ]


MOST_AXES = 16
USUAL_FIELDS = 7
"""Number of differing fields shown by default."""
DECADES = 100.0
"""Minimum ratio of maximum to minimum for which an axis of positive numbers is logarithmic by default."""
Brushes = Mapping[str, Sequence[Any]]


@dataclass
class Axis:
    """A config field (a dotted path) or a metric (with slashes); positions range from 0 at the bottom to 1 at the top."""

    name: str
    kind: str
    """number, or category."""
    log: bool = False
    low: float = 0.0
    high: float = 1.0
    categories: list[str] = field(default_factory=list)

    def place(self, value: Any) -> float | None:
        """Return the position of a value; None for a missing value."""
        if value is None:
            return None
        if self.kind == "category":
            index = self.categories.index(spelled(value))
            return index / (len(self.categories) - 1) if len(self.categories) > 1 else 0.5
        if self.high == self.low:
            return 0.5
        low, high, here = (
            log10(edge) if self.log else edge / 2 for edge in (self.low, self.high, float(value))
        )  # halved, so that the difference of two large numbers does not overflow
        return (here - low) / (high - low)

    def keeps(self, value: Any, brush: Sequence[Any]) -> bool:
        """Whether a brush, [minimum, maximum] or a list of categories, selects a value."""
        if value is None:
            return False
        if self.kind == "category":
            return spelled(value) in [str(choice) for choice in brush]
        least, most = brush
        return bool(least <= value <= most)


def table_read(runs: Sequence[Run], choice: Choice) -> dict[str, Any]:
    """Return {"axes": [...], "rows": [{"run", "name", "group", "tone", "values", "places", "kept"}], "kept": ids}.

    Values are in the order of the axes, null for a missing (or not finite) value. Raises ConfigError for invalid brushes,
    too many axes, too many groups.
    """
    wanted = _wanted(runs, choice)
    columns = {name: _column(runs, name) for name, _ in wanted}
    axes = [_axis(name, scale, list(columns[name].values())) for name, scale in wanted]
    brushes = brushes_read(choice.brush, axes)
    rows = []
    for group in groups_make(runs, choice.by):
        for run in group.runs:
            values = [columns[axis.name].get(run.pk) for axis in axes]
            selected = all(
                axis.keeps(value, brushes[axis.name])
                for axis, value in zip(axes, values, strict=True)
                if axis.name in brushes
            )
            rows.append({
                "run": run.pk, "name": run.name, "group": group.label, "tone": group.tone, "values": values,
                "places": [axis.place(value) for axis, value in zip(axes, values, strict=True)], "kept": selected,
            })  # fmt: skip
    return {
        "axes": [asdict(axis) | {"brush": brushes.get(axis.name)} for axis in axes],
        "rows": rows,
        "kept": [row["run"] for row in rows if row["kept"]],
    }


def _wanted(runs: Sequence[Run], choice: Choice) -> list[tuple[str, str]]:
    """Return (name, scale) of each axis. Syntax: `name`, `name:log` or `name:linear`."""
    words = [name.partition(":") for name in names_of(choice.axes)]
    if len(words) > MOST_AXES:
        raise ConfigError({"axes": f"{len(words)} axes; at most {MOST_AXES} are drawn"})
    if wrong := [scale for _, _, scale in words if scale not in ("", "log", "linear")]:
        raise ConfigError({"axes": f"{wrong[0]!r} is not a scale: use name:log or name:linear"})
    if words:
        return [(name, scale) for name, _, scale in words]
    paths = differing(list(flat_configs(runs).values()))
    fields = [path for path in paths if path not in ASIDE_PATHS and not path.startswith(RECORDED)]
    return [(name, "") for name in [*fields[:USUAL_FIELDS], *choice.keys]]


def _column(runs: Sequence[Run], name: str) -> dict[str, Any]:
    """Return run -> value, for the runs that have one."""
    if is_metric(name):
        series = Series.objects.filter(run__in=[run.pk for run in runs], key=metric_read(name)[0])
        return {run: value for run, value in series.values_list("run_id", "last_value") if isfinite(value)}
    flat = {run: values.get(name) for run, values in flat_configs(runs).items()}
    return {run: value for run, value in flat.items() if value is not None}


def _axis(name: str, scale: str, values: Sequence[Any]) -> Axis:
    if not values or not all(_is_number(value) for value in values):
        return Axis(name, "category", categories=sorted({spelled(value) for value in values}))
    low, high = float(min(values)), float(max(values))
    log = low > 0 and (scale == "log" or (scale != "linear" and high / low >= DECADES))
    return Axis(name, "number", log, low, high)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def spelled(value: Any) -> str:
    """Return a category as text."""
    return value if isinstance(value, str) else json.dumps(value)


def brushes_read(text: str, axes: Sequence[Axis]) -> Brushes:
    """Return {"name": [minimum, maximum]} for numbers, {"name": [selected ones]} for categories; brushes of unknown axes are
    ignored. Raises ConfigError.
    """
    try:
        document = json.loads(text) if text else {}
        brushes = {axis.name: document[axis.name] for axis in axes if axis.name in document}
        for axis in axes:
            if axis.name in brushes and axis.kind == "number":
                least, most = brushes[axis.name]
                brushes[axis.name] = [float(least), float(most)]
            elif axis.name in brushes:
                brushes[axis.name] = [str(choice) for choice in brushes[axis.name]]
    except (ValueError, TypeError, RecursionError) as error:
        message = 'write {"name": [least, greatest]}, or {"name": ["one", "other"]} for a category'
        raise ConfigError({"brush": message}) from error
    return brushes

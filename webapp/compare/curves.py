"""Curves of groups of runs: mean and band over one axis, with the number of runs at every point."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.errors import ConfigError
from webapp.agents.rewards import shaped_label
from webapp.compare.alignment import (
    RunCurve,
    axis_of,
    band_of,
    counts_of,
    line_of,
    mean_of,
    on_axis,
    smoothed,
)
from webapp.compare.forms import Choice
from webapp.compare.groups import RunGroup, groups_make
from webapp.metrics.arrays import Floats, Ints, unpack_floats, unpack_ints
from webapp.metrics.expressions import Expression, expression_read
from webapp.metrics.models import Chunk, Series
from webapp.runs.models import Run

FEW = 24
"""Minimum number of points of the axis for smoothing: fewer are drawn as they are."""
MOST_LINES = 60
"""Maximum number of lines of single runs in one chart."""
STEP_AXES = ("step", "time")
PROGRESS = {"tokens": "progress/tokens", "episodes": "progress/episodes", "env_steps": "progress/env_steps"}
Rows = list[float | None]


def curves_read(runs: Sequence[Run], choice: Choice, key: str) -> dict[str, Any]:
    """Return {"key", "x", "axis", "spans", "groups": [{"group", "label", "tone", "runs", "n", "mean", "raw", "low", "high",
    "counts", "lines"}], "without": ids of runs without a point on this axis, "left_out": number of points that are not finite}.

    Every list of a group has the length of "axis"; null where there is no run (or, for a band, not enough runs). "raw" is
    the mean before smoothing. Raises ConfigError for too many groups.
    """
    lines = lines_read(runs, key, choice.x)
    drawn = [run for run in runs if run.pk in lines]
    groups = groups_make(drawn, choice.by)
    if choice.band == "runs" and len(drawn) > MOST_LINES:
        raise ConfigError({"band": f"{len(drawn)} lines; at most {MOST_LINES} are drawn: name fewer runs"})
    axis, spans = axis_of(list(lines.values()))
    weight = choice.smooth if len(axis) >= FEW else 0.0
    return {
        "key": key,
        "label": shaped_label(key, [run.config for run in runs]),
        "x": choice.x,
        "axis": axis.tolist(),
        "spans": spans,
        "groups": [
            _group(
                group, np.stack([on_axis(lines[run.pk], axis, spans) for run in group.runs]), choice, weight
            )
            for group in groups
        ],
        "without": [run.pk for run in runs if run.pk not in lines],
        "left_out": sum(line.left_out for line in lines.values()),
    }


def curve_rows(curves: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield rows [group, axis value, mean, low, high, runs] of the result of `curves_read`, one per point."""
    missing = [None] * len(curves["axis"])
    for group in curves["groups"]:
        bounds = group["low"] or missing, group["high"] or missing
        for row in zip(curves["axis"], group["mean"], *bounds, group["counts"], strict=True):
            yield [group["label"], *row]


def _group(group: RunGroup, table: Floats, choice: Choice, weight: float) -> dict[str, Any]:
    shown = smoothed(table, weight) if weight else table
    band = band_of(shown, choice.band)
    return {
        "group": group.key,
        "label": group.label,
        "tone": group.tone,
        "runs": [{"id": run.pk, "name": run.name} for run in group.runs],
        "n": len(group.runs),
        "mean": _row(mean_of(shown)),
        "raw": _row(mean_of(table)) if weight else None,
        "low": _row(band.low) if band else None,
        "high": _row(band.high) if band else None,
        "counts": counts_of(table).tolist(),
        "lines": [_row(row) for row in shown] if choice.band == "runs" else None,
    }


def _row(values: Floats) -> Rows:
    return [float(value) if np.isfinite(value) else None for value in values]


def lines_read(runs: Sequence[Run], key: str, x: str = "step") -> dict[str, RunCurve]:
    """Return the line of a metric, or of an expression of metrics, for each run that has one. x: a name of
    webapp.compare.forms.AXES, or another metric or expression, of which the values at the same steps count.

    Points repeated by a later attempt are dropped. Seconds count from the metric's first point in the run; tokens,
    episodes and environment steps are the run's totals at the step. Raises ConfigError for an invalid expression.
    """
    value = _expression(runs, key, "key")
    across = None if x in STEP_AXES else _expression(runs, PROGRESS.get(x, x), "x")
    points_by_run = _points_read(runs, [*value.keys, *(across.keys if across else ())])
    reported = {name for points in points_by_run.values() for name in points}
    if across and x not in PROGRESS and not set(across.keys) <= reported:
        raise ConfigError(
            {"x": f"none of these runs reports {', '.join(sorted(set(across.keys) - reported))}"}
        )
    lines = {}
    for run in runs:
        own = points_by_run.get(run.pk, {})
        points = _evaluated(value, own)
        if points is None:
            continue
        axis = _axis(points, _evaluated(across, own) if across else None, x)
        line = line_of(axis, points.values) if axis is not None else None
        if line and len(line.x):
            lines[run.pk] = line
    return lines


def _expression(runs: Sequence[Run], text: str, field: str) -> Expression:
    """Return the parsed expression; a text that is the name of a metric of these runs is not parsed."""
    try:
        return expression_read(text, field)
    except ConfigError:
        if Series.objects.filter(run__in=[run.pk for run in runs], key=text).exists():
            return Expression(text, (text,), lambda columns: columns[text])
        raise


def _evaluated(expression: Expression, points: "Mapping[str, _Points]") -> "_Points | None":
    """Return the values at the steps that all metrics have, each at its latest time; None without such steps."""
    if expression.single:
        return points.get(expression.text)
    if not all(key in points for key in expression.keys):
        return None
    columns = [points[key].by_step() for key in expression.keys]
    steps = columns[0].steps
    for column in columns[1:]:
        steps = np.intersect1d(steps, column.steps)
    columns = [column.at(np.searchsorted(column.steps, steps)) for column in columns]
    with np.errstate(all="ignore"):
        values = expression.value(
            {key: column.values for key, column in zip(expression.keys, columns, strict=True)}
        )
    times = np.max([column.times for column in columns], axis=0)
    return _Points(steps, np.asarray(values, dtype=float), times) if len(steps) else None


@dataclass(frozen=True)
class _Points:
    """A run's points of one metric in order of arrival."""

    steps: Ints
    values: Floats
    times: Floats

    def at(self, places: "Ints | NDArray[np.bool_]") -> "_Points":
        """Return the points at these indices."""
        return _Points(self.steps[places], self.values[places], self.times[places])

    def by_step(self) -> "_Points":
        """Return the points by step, the last of equal steps."""
        ordered = self.at(np.argsort(self.steps, kind="stable"))
        return ordered.at(np.append(ordered.steps[1:] != ordered.steps[:-1], True)[: len(ordered.steps)])


def _current(steps: Ints, values: Floats, times: Floats, attempts: Ints) -> _Points:
    """Return the points without those that a later attempt repeated."""
    valid = np.ones(len(steps), dtype=bool)
    for attempt in np.unique(attempts)[1:]:
        valid &= (attempts >= attempt) | (steps < steps[attempts == attempt].min())
    return _Points(steps, values, times).at(valid)


def _axis(points: _Points, progress: _Points | None, x: str) -> Floats | None:
    if x == "step":
        return np.asarray(points.steps, dtype=np.float64)
    if x == "time":
        return np.asarray(points.times - points.times.min(), dtype=np.float64)
    if progress is None:
        return None
    if x not in PROGRESS:
        return _at_steps(points, progress.by_step())
    used = line_of(progress.steps.astype(float), progress.values)
    if not len(used.x):
        return None
    # Totals before the first iteration are 0.
    before = used.x[0] > 0
    steps, amounts = (np.insert(used.x, 0, 0.0), np.insert(used.y, 0, 0.0)) if before else (used.x, used.y)
    return np.asarray(np.interp(points.steps, steps, amounts, left=np.nan, right=np.nan), dtype=np.float64)


def _at_steps(points: _Points, across: _Points) -> Floats:
    """Return the values of another metric at the steps of these points; NaN where it has none."""
    places = np.minimum(np.searchsorted(across.steps, points.steps), len(across.steps) - 1)
    return np.where(across.steps[places] == points.steps, across.values[places], np.nan)


def _points_read(runs: Sequence[Run], keys: Sequence[str]) -> dict[str, dict[str, _Points]]:
    """Return points by run and metric."""
    chunks = Chunk.objects.filter(series__run__in=[run.pk for run in runs], series__key__in=keys)
    parts: dict[tuple[str, str], list[tuple[Ints, Floats, Floats, Ints]]] = {}
    rows = chunks.order_by("pk").values_list(
        "series__run_id", "series__key", "attempt", "steps", "values", "times"
    )
    for run, key, attempt, steps, values, times in rows.iterator():
        numbers = unpack_ints(steps)
        part = (numbers, unpack_floats(values), unpack_floats(times), np.full(len(numbers), attempt))
        parts.setdefault((run, key), []).append(part)
    points: dict[str, dict[str, _Points]] = {}
    for (run, key), pieces in parts.items():
        points.setdefault(run, {})[key] = _current(*map(np.concatenate, zip(*pieces, strict=True)))
    return points

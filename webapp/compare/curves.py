"""Curves of groups of runs: mean and band over one axis, with the number of runs at every point."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from training_core.errors import ConfigError
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
from webapp.metrics.models import Chunk
from webapp.runs.models import Run

MOST_LINES = 60
"""Maximum number of lines of single runs in one chart."""
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
    return {
        "key": key,
        "x": choice.x,
        "axis": axis.tolist(),
        "spans": spans,
        "groups": [
            _group(group, np.stack([on_axis(lines[run.pk], axis, spans) for run in group.runs]), choice)
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


def _group(group: RunGroup, table: Floats, choice: Choice) -> dict[str, Any]:
    shown = smoothed(table, choice.smooth) if choice.smooth else table
    band = band_of(shown, choice.band)
    return {
        "group": group.key,
        "label": group.label,
        "tone": group.tone,
        "runs": [{"id": run.pk, "name": run.name} for run in group.runs],
        "n": len(group.runs),
        "mean": _row(mean_of(shown)),
        "raw": _row(mean_of(table)) if choice.smooth else None,
        "low": _row(band.low) if band else None,
        "high": _row(band.high) if band else None,
        "counts": counts_of(table).tolist(),
        "lines": [_row(row) for row in shown] if choice.band == "runs" else None,
    }


def _row(values: Floats) -> Rows:
    return [float(value) if np.isfinite(value) else None for value in values]


def lines_read(runs: Sequence[Run], key: str, x: str = "step") -> dict[str, RunCurve]:
    """Return a metric's line of each run that has one. x: a name of webapp.compare.forms.AXES.

    Points repeated by a later attempt are dropped. Seconds count from the metric's first point in the run; tokens,
    episodes and environment steps are the run's totals at the step.
    """
    wanted = [key, *([PROGRESS[x]] if x in PROGRESS else [])]
    points_by_run = _points_read(runs, wanted)
    lines = {}
    for run in runs:
        points = points_by_run.get((run.pk, key))
        if points is None:
            continue
        axis = _axis(points, points_by_run.get((run.pk, PROGRESS[x])) if x in PROGRESS else None, x)
        line = line_of(axis, points.values) if axis is not None else None
        if line and len(line.x):
            lines[run.pk] = line
    return lines


class _Points:
    """A run's points of one metric without repeated steps, in order of arrival."""

    def __init__(self, steps: Ints, values: Floats, times: Floats, attempts: Ints) -> None:
        valid = np.ones(len(steps), dtype=bool)
        for attempt in np.unique(attempts)[1:]:
            valid &= (attempts >= attempt) | (steps < steps[attempts == attempt].min())
        self.steps, self.values, self.times = steps[valid], values[valid], times[valid]


def _axis(points: _Points, progress: _Points | None, x: str) -> Floats | None:
    if x == "step":
        return np.asarray(points.steps, dtype=np.float64)
    if x == "time":
        return np.asarray(points.times - points.times.min(), dtype=np.float64)
    if progress is None:
        return None
    used = line_of(progress.steps.astype(float), progress.values)
    if not len(used.x):
        return None
    # Totals before the first iteration are 0.
    before = used.x[0] > 0
    steps, amounts = (np.insert(used.x, 0, 0.0), np.insert(used.y, 0, 0.0)) if before else (used.x, used.y)
    return np.asarray(np.interp(points.steps, steps, amounts, left=np.nan, right=np.nan), dtype=np.float64)


def _points_read(runs: Sequence[Run], keys: Sequence[str]) -> dict[tuple[str, str], _Points]:
    chunks = Chunk.objects.filter(series__run__in=[run.pk for run in runs], series__key__in=keys)
    parts: dict[tuple[str, str], list[tuple[Ints, Floats, Floats, Ints]]] = {}
    rows = chunks.order_by("pk").values_list(
        "series__run_id", "series__key", "attempt", "steps", "values", "times"
    )
    for run, key, attempt, steps, values, times in rows.iterator():
        numbers = unpack_ints(steps)
        part = (numbers, unpack_floats(values), unpack_floats(times), np.full(len(numbers), attempt))
        parts.setdefault((run, key), []).append(part)
    return {name: _Points(*map(np.concatenate, zip(*chunks, strict=True))) for name, chunks in parts.items()}

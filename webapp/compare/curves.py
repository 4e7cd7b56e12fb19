"""Curves of groups of runs: mean and band over one axis, with the number of runs at every point.

The lines of runs have different lengths and densities, and are aligned on one axis without extrapolation: a run has values only between its
own first and last point; elsewhere they are missing. Runs that report at the same steps, as the runs of a sweep do, are read as one table,
so that ten thousand runs take no loop over runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from training_core.errors import ConfigError
from webapp.agents.rewards import shaped_label
from webapp.compare.choice import MOST_RUNS, Choice, RunGroup, best_groups, configs_of, groups_make
from webapp.metrics.arrays import (
    Floats,
    pack_floats,
    pack_ints,
    unpack_floats,
    unpack_floats_joined,
    unpack_ints,
)
from webapp.metrics.expressions import Expression, expression_read
from webapp.metrics.models import Block, Series
from webapp.metrics.panels import PROGRESS
from webapp.metrics.points import Points, blocks_read, superseded
from webapp.runs.models import Run

MOST_POINTS = 400
RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class RunCurve:
    """One run's curve: x strictly increasing, y finite."""

    x: Floats
    y: Floats
    left_out: int = 0
    """Number of points that were not finite."""


@dataclass(frozen=True)
class AlignedCurves:
    """Lines of runs with the same x, a row for each run: x strictly increasing, y finite."""

    runs: Sequence[str]
    x: Floats
    y: Floats
    """(runs, x)."""
    left_out: Sequence[int]
    """Number of points of each run that were not finite."""


@dataclass(frozen=True)
class Band:
    """Bounds at every point of the axis; NaN where undefined."""

    low: Floats
    high: Floats


def line_of(x: Floats, y: Floats) -> RunCurve:
    """Return points in order of arrival as a line: sorted by x, the last of equal x; values that are not finite are dropped."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    left_out = int((~finite).sum())
    if (x[1:] > x[:-1]).all():
        return RunCurve(x, y, left_out)
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    last = np.append(x[1:] != x[:-1], True)[: len(x)]
    return RunCurve(x[last], y[last], left_out)


def axis_of(lines: Sequence[RunCurve | AlignedCurves], most: int = MOST_POINTS) -> tuple[Floats, bool]:
    """Return the union of all x; if there are more than `most`, the midpoints of `most` equal bins (then True)."""
    positions = np.unique(np.concatenate([line.x for line in lines])) if lines else np.empty(0)
    if len(positions) <= most:
        return positions, False
    width = (positions[-1] - positions[0]) / most
    return positions[0] + width * (np.arange(most) + 0.5), True


def on_axis(line: RunCurve, axis: Floats, spans: bool) -> Floats:
    """Return the line's values at every point of the axis: the row of `curves_on_axis`."""
    row: Floats = curves_on_axis(AlignedCurves([""], line.x, line.y[None], [line.left_out]), axis, spans)[0]
    return row


def curves_on_axis(curves: AlignedCurves, axis: Floats, spans: bool) -> Floats:
    """Return the values of each row (runs, axis) at every point of the axis, NaN outside the range of its x.

    Values between two points are interpolated linearly. For an axis of bins, the lines are first averaged within each.
    """
    x, y = curves.x, curves.y
    if not len(x):
        return np.full((len(y), len(axis)), np.nan)
    if spans:
        x, y = _means(x, y, axis)
    return _interpolated(x, y, axis)


def _means(x: Floats, y: Floats, axis: Floats) -> tuple[Floats, Floats]:
    width = axis[1] - axis[0]
    places = np.clip(((x - axis[0]) / width + 0.5).astype(int), 0, len(axis) - 1)
    firsts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    counts = np.diff(np.append(firsts, len(x)))
    return axis[places[firsts]], np.add.reduceat(y, firsts, axis=1) / counts


def _interpolated(x: Floats, y: Floats, axis: Floats) -> Floats:
    if len(y) == 1:
        return np.asarray(np.interp(axis, x, y[0], left=np.nan, right=np.nan)).reshape(1, -1)
    if len(x) == len(axis) and (x == axis).all():
        return y
    table: Floats = np.full((len(y), len(axis)), np.nan)
    inside = np.flatnonzero((axis >= x[0]) & (axis < x[-1]))
    places = np.searchsorted(x, axis[inside], side="right") - 1
    shares = (axis[inside] - x[places]) / (x[places + 1] - x[places])
    table[:, inside] = y[:, places] + (y[:, places + 1] - y[:, places]) * shares
    table[:, axis == x[-1]] = y[:, -1:]
    return table


def smoothed(table: Floats, weight: float) -> Floats:
    """Return rows (runs, axis) as exponential moving averages along the axis, corrected for the bias of the start; NaN stays NaN."""
    sums, mass = np.zeros(len(table)), np.zeros(len(table))
    out = np.full(table.shape, np.nan)
    for column in range(table.shape[1]):
        finite = np.isfinite(table[:, column])
        sums[finite] = weight * sums[finite] + (1 - weight) * table[finite, column]
        mass[finite] = weight * mass[finite] + (1 - weight)
        out[finite, column] = sums[finite] / mass[finite]
    return out


def counts_of(table: Floats) -> NDArray[np.int64]:
    """Return the number of runs with a value at every point of the axis."""
    return np.asarray(np.isfinite(table).sum(axis=0), dtype=np.int64)


def mean_of(table: Floats) -> Floats:
    """Return the mean over the runs with a value; NaN where there is none."""
    return _divided(np.nansum(table, axis=0), counts_of(table))


def band_of(table: Floats, kind: str, seed: int = 0) -> Band | None:
    """Return the band around the mean of rows (runs, axis): "sd" (of the sample) and "ci" (percentiles of the means of
    resampled runs) need two runs, "minmax" one. None for any other kind.
    """
    if kind == "sd":
        mean, counts = mean_of(table), counts_of(table)
        deviation = np.sqrt(_divided(np.nansum((table - mean) ** 2, axis=0), counts - 1))
        return Band(mean - deviation, mean + deviation)
    if kind == "ci":
        return _interval(table, seed)
    if kind == "minmax":
        there = counts_of(table) > 0
        low, high = np.where(np.isfinite(table), table, np.inf), np.where(np.isfinite(table), table, -np.inf)
        return Band(np.where(there, low.min(axis=0), np.nan), np.where(there, high.max(axis=0), np.nan))
    return None


def _interval(table: Floats, seed: int) -> Band:
    """Weights (resamples, runs) are the counts of each run in a resample: all means are two matrix products."""
    runs = len(table)
    drawn = np.random.default_rng(seed).integers(0, runs, (RESAMPLES, runs))
    weights = np.bincount((drawn + np.arange(RESAMPLES)[:, None] * runs).ravel(), minlength=RESAMPLES * runs)
    weights = weights.reshape(RESAMPLES, runs).astype(float)
    there = np.isfinite(table)
    means = _divided(weights @ np.where(there, table, 0.0), weights @ there.astype(float))
    bounds: Floats = np.full((2, table.shape[1]), np.nan)
    some = there.sum(axis=0) > 1
    # A resample may contain none of the runs with a value; checking for that is slow, so it is done only where needed.
    gaps = np.isnan(means).any(axis=0)
    levels = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    for places, quantile in ((some & ~gaps, np.quantile), (some & gaps, np.nanquantile)):
        if places.any():
            bounds[:, places] = quantile(means[:, places], levels, axis=0)
    return Band(bounds[0], bounds[1])


def _divided(total: Floats, count: Floats | NDArray[np.int64]) -> Floats:
    """Return total / count, NaN where the count is not positive."""
    quotient: Floats = np.full(np.shape(total), np.nan)
    np.divide(total, count, out=quotient, where=np.asarray(count) > 0)
    return quotient


STEP_AXES = ("step", "time")
_CHUNKS = """
SELECT s.run_id, s.key, c.attempt, c.steps, c."values", {times} FROM metrics_series s JOIN metrics_chunk c ON c.series_id = s.id
WHERE s.run_id = ANY(%s) AND s.key = ANY(%s) ORDER BY c.id
"""


def lines_read(runs: Sequence[Run], key: str, x: str = "step") -> dict[str, RunCurve]:
    """Return the line of a metric, or of an expression of metrics, for each run that has one: the rows of `aligned_read`."""
    aligned = aligned_read(runs, key, x)
    lines = {
        run: RunCurve(curves.x, row, left_out)
        for curves in aligned
        for run, row, left_out in zip(curves.runs, curves.y, curves.left_out, strict=True)
    }
    return {run.pk: lines[run.pk] for run in runs if run.pk in lines}


def aligned_read(runs: Sequence[Run], key: str, x: str = "step") -> list[AlignedCurves]:
    """Return the lines of these runs, those with the same x together; a run without a point is in none. x: a name of
    webapp.metrics.panels.AXES, or another metric or expression, of which the values at the same steps count.

    Points repeated by a later attempt are dropped. Seconds count from the metric's first point in the run; tokens,
    episodes and environment steps are the run's totals at the step. Raises ConfigError for an invalid expression.
    """
    value = _expression(runs, key, "key")
    if value.single and x == "step":
        return _aligned_by_step([run.pk for run in runs], key)
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
        if axis is not None:
            lines[run.pk] = line_of(axis, points.values)
    return aligned_of(lines)


def aligned_of(lines: Mapping[str, RunCurve]) -> list[AlignedCurves]:
    """Return the lines with points as aligned curves."""
    same: dict[bytes, list[str]] = {}
    for run, line in lines.items():
        if len(line.x):
            same.setdefault(line.x.tobytes(), []).append(run)
    return [
        AlignedCurves(
            runs,
            lines[runs[0]].x,
            np.stack([lines[run].y for run in runs]),
            [lines[run].left_out for run in runs],
        )
        for runs in same.values()
    ]


Piece = tuple[int, bytes, bytes]
"""Attempt, packed steps and packed values of a chunk."""


def _aligned_by_step(run_ids: Sequence[str], key: str) -> list[AlignedCurves]:
    """Return the lines of a metric over steps. A run with one chunk is a row of the table of all chunks with the same packed steps."""
    pieces: dict[str, list[Piece]] = {}
    for run, _, attempt, steps, values, _ in _rows(run_ids, [key], times=False):
        pieces.setdefault(run, []).append((attempt, steps, values))
    same: dict[bytes, list[str]] = {}
    lines: dict[str, RunCurve] = {}
    for run, chunks in pieces.items():
        if len(chunks) == 1:
            same.setdefault(chunks[0][1], []).append(run)
        else:
            points = _joined([_unpacked(*chunk) for chunk in chunks])
            lines[run] = line_of(points.steps.astype(np.float64), points.values)
    aligned = []
    for packed, runs in same.items():
        x = unpack_ints(packed).astype(np.float64)
        table = unpack_floats_joined([pieces[run][0][2] for run in runs]).reshape(len(runs), len(x))
        plain = np.isfinite(table).all(axis=1) & bool((x[1:] > x[:-1]).all())
        lines |= {runs[row]: line_of(x, table[row]) for row in np.flatnonzero(~plain)}
        if plain.any():
            rows = np.flatnonzero(plain)
            aligned.append(AlignedCurves([runs[row] for row in rows], x, table[rows], [0] * len(rows)))
    return [*aligned, *aligned_of(lines)]


def _rows(
    run_ids: Sequence[str], keys: Sequence[str], *, times: bool
) -> Iterator[tuple[str, str, int, bytes, bytes, bytes]]:
    """Yield run, metric, attempt, packed steps, values and times of each chunk, in order of arrival, and of the newer points in blocks,
    which are read first: points that are moved meanwhile are in both. Without `times` those of chunks are empty.
    """
    live = Block.objects.filter(run__in=run_ids, count__gt=0).values_list("run_id", flat=True).distinct()
    series = Series.objects.filter(run__in=list(live), key__in=keys)
    owners = {pk: (run, key) for pk, run, key in series.values_list("id", "run_id", "key")}
    newer = blocks_read({run for run, _ in owners.values()}, owners) if owners else {}
    with connection.cursor() as cursor:
        cursor.execute(_CHUNKS.format(times="c.times" if times else "''::bytea"), [list(run_ids), list(keys)])
        yield from cursor.fetchall()
    for pk, points in newer.items():
        for attempt, some in points.by_attempt().items():
            packed = pack_ints(some.steps), pack_floats(some.values), pack_floats(some.times)
            yield *owners[pk], attempt, *packed


def _expression(runs: Sequence[Run], text: str, field: str) -> Expression:
    """Return the parsed expression; a text that is the name of a metric of these runs is not parsed."""
    try:
        return expression_read(text, field)
    except ConfigError:
        if Series.objects.filter(run__in=[run.pk for run in runs], key=text).exists():
            return Expression(text, (text,), lambda columns: columns[text])
        raise


def _evaluated(expression: Expression, points: Mapping[str, Points]) -> Points | None:
    """Return the values at the steps that all metrics have, each at its latest time; None without such steps."""
    if expression.single:
        return points.get(expression.text)
    if not all(key in points for key in expression.keys):
        return None
    columns = [_by_step(points[key]) for key in expression.keys]
    steps = columns[0].steps
    for column in columns[1:]:
        steps = np.intersect1d(steps, column.steps)
    columns = [column.take(np.searchsorted(column.steps, steps)) for column in columns]
    with np.errstate(all="ignore"):
        values = expression.value(
            {key: column.values for key, column in zip(expression.keys, columns, strict=True)}
        )
    times = np.max([column.times for column in columns], axis=0)
    return Points(steps, np.asarray(values, dtype=float), times, np.zeros_like(steps)) if len(steps) else None


def _by_step(points: Points) -> Points:
    """Return the points by step, the last of equal steps."""
    ordered = points.take(np.argsort(points.steps, kind="stable"))
    return ordered.take(np.append(ordered.steps[1:] != ordered.steps[:-1], True)[: len(ordered.steps)])


def _unpacked(attempt: int, steps: bytes, values: bytes, times: bytes = b"") -> Points:
    """Return the points of a chunk in order of arrival, with times of 0 if there are none."""
    numbers = unpack_ints(steps)
    moments = unpack_floats(times) if times else np.zeros(len(numbers))
    return Points(numbers, unpack_floats(values), moments, np.full(len(numbers), attempt))


def _joined(pieces: Sequence[Points]) -> Points:
    """Return the points of chunks without those that a later attempt repeated."""
    points = pieces[0] if len(pieces) == 1 else Points.join(pieces)
    again = superseded(points.steps, points.attempts)
    return points.take(~again) if again.any() else points


def _axis(points: Points, progress: Points | None, x: str) -> Floats | None:
    if x == "step":
        return np.asarray(points.steps, dtype=np.float64)
    if x == "time":
        return np.asarray(points.times - points.times.min(), dtype=np.float64)
    if progress is None:
        return None
    if x not in PROGRESS:
        return _at_steps(points, _by_step(progress))
    used = line_of(progress.steps.astype(float), progress.values)
    if not len(used.x):
        return None
    # Totals before the first iteration are 0.
    before = used.x[0] > 0
    steps, amounts = (np.insert(used.x, 0, 0.0), np.insert(used.y, 0, 0.0)) if before else (used.x, used.y)
    return np.asarray(np.interp(points.steps, steps, amounts, left=np.nan, right=np.nan), dtype=np.float64)


def _at_steps(points: Points, across: Points) -> Floats:
    """Return the values of another metric at the steps of these points; NaN where it has none."""
    places = np.minimum(np.searchsorted(across.steps, points.steps), len(across.steps) - 1)
    return np.where(across.steps[places] == points.steps, across.values[places], np.nan)


def _points_read(runs: Sequence[Run], keys: Sequence[str]) -> dict[str, dict[str, Points]]:
    """Return points by run and metric."""
    parts: dict[tuple[str, str], list[Points]] = {}
    for run, key, attempt, steps, values, times in _rows([run.pk for run in runs], keys, times=True):
        parts.setdefault((run, key), []).append(_unpacked(attempt, steps, values, times))
    points: dict[str, dict[str, Points]] = {}
    for (run, key), pieces in parts.items():
        points.setdefault(run, {})[key] = _joined(pieces)
    return points


FEW = 24
"""Minimum number of points of the axis for smoothing: fewer are drawn as they are."""
MOST_LINES = 60
"""Maximum number of lines of single runs in one chart."""
MOST_LISTED = 20
"""Maximum number of runs of a group that are listed if more than MOST_RUNS are compared."""
Rows = list[float | None]


def curves_read(runs: Sequence[Run], choice: Choice, key: str) -> dict[str, Any]:
    """Return {"key", "x", "axis", "spans", "groups": [{"group", "label", "tone", "runs", "n", "mean", "raw", "low", "high",
    "counts", "lines"}], "omitted": number of groups that are not drawn, "without": ids of runs without a point on this axis,
    "left_out": number of points that are not finite}.

    Every list of a group has the length of "axis"; null where there is no run (or, for a band, not enough runs). "raw" is
    the mean before smoothing; "runs" are the first MOST_LISTED of each group if there are more than MOST_RUNS. Of too many groups
    those of `best_groups` are drawn. Raises ConfigError for too many lines of single runs.
    """
    best = best_groups(runs, choice, key)
    aligned = aligned_read(best.runs, key, choice.x)
    having = {run for curves in aligned for run in curves.runs}
    drawn = [run for run in best.runs if run.pk in having]
    groups = groups_make(drawn, choice.by)
    if choice.band == "runs" and len(drawn) > MOST_LINES:
        raise ConfigError(
            {
                "band": f"{len(drawn)} lines; at most {MOST_LINES} are drawn: choose another band, or name fewer runs"
            }
        )
    axis, spans = axis_of(aligned)
    weight = choice.smooth if len(axis) >= FEW else 0.0
    table, places = _table(aligned, axis, spans)
    listed = len(runs) if len(runs) <= MOST_RUNS else MOST_LISTED
    return {
        "key": key,
        "label": shaped_label(key, configs_of(runs)),
        "x": choice.x,
        "axis": axis.tolist(),
        "spans": spans,
        "groups": [
            _group(group, table[[places[run.pk] for run in group.runs]], choice, weight, listed)
            for group in groups
        ],
        "omitted": best.omitted,
        "without": [run.pk for run in best.runs if run.pk not in having],
        "left_out": sum(sum(curves.left_out) for curves in aligned),
    }


def _table(aligned: Sequence[AlignedCurves], axis: Floats, spans: bool) -> tuple[Floats, dict[str, int]]:
    """Return the values of all lines (runs, axis), and the row of each run."""
    rows = [run for curves in aligned for run in curves.runs]
    parts = [curves_on_axis(curves, axis, spans) for curves in aligned]
    table = np.concatenate(parts) if parts else np.empty((0, len(axis)))
    return table, {run: row for row, run in enumerate(rows)}


def curve_rows(curves: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield rows [group, axis value, mean, low, high, runs] of the result of `curves_read`, one per point."""
    missing = [None] * len(curves["axis"])
    for group in curves["groups"]:
        bounds = group["low"] or missing, group["high"] or missing
        for row in zip(curves["axis"], group["mean"], *bounds, group["counts"], strict=True):
            yield [group["label"], *row]


def _group(group: RunGroup, table: Floats, choice: Choice, weight: float, listed: int) -> dict[str, Any]:
    shown = smoothed(table, weight) if weight else table
    band = band_of(shown, choice.band)
    return {
        "group": group.key,
        "label": group.label,
        "tone": group.tone,
        "runs": [{"id": run.pk, "name": run.name} for run in group.runs[:listed]],
        "n": len(group.runs),
        "mean": _row(mean_of(shown)),
        "raw": _row(mean_of(table)) if weight else None,
        "low": _row(band.low) if band else None,
        "high": _row(band.high) if band else None,
        "counts": counts_of(table).tolist(),
        "lines": [_row(row) for row in shown] if choice.band == "runs" else None,
    }


def _row(values: Floats) -> Rows:
    finite = np.isfinite(values).tolist()
    return [value if there else None for value, there in zip(values.tolist(), finite, strict=True)]

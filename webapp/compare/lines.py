"""Lines of a metric, or of an expression of metrics, of many runs.

Runs that report at the same steps, as the runs of a sweep do, are read as one table, so that ten thousand runs take no loop over runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from training_core.errors import ConfigError
from webapp.compare.alignment import AlignedCurves, RunCurve, line_of
from webapp.metrics.arrays import (
    Floats,
    Ints,
    pack_floats,
    pack_ints,
    unpack_floats,
    unpack_floats_joined,
    unpack_ints,
)
from webapp.metrics.blocks import GROUP, wide_read
from webapp.metrics.buckets import superseded
from webapp.metrics.expressions import Expression, expression_read
from webapp.metrics.models import Block, Series
from webapp.runs.models import Run

STEP_AXES = ("step", "time")
PROGRESS = {"tokens": "progress/tokens", "episodes": "progress/episodes", "env_steps": "progress/env_steps"}
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
    webapp.compare.forms.AXES, or another metric or expression, of which the values at the same steps count.

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
    """Yield run, metric, attempt, packed steps, values and times of each chunk, in order of arrival, and of the newer points in blocks;
    without `times` those of chunks are empty.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CHUNKS.format(times="c.times" if times else "''::bytea"), [list(run_ids), list(keys)])
        yield from cursor.fetchall()
    wide = Series.objects.filter(run__in=run_ids, key__in=keys, wide=True)
    owners = {pk: (run, key) for pk, run, key in wide.values_list("id", "run_id", "key")}
    blocks = Block.objects.filter(group__in={pk // GROUP for pk in owners})
    newer, _ = wide_read(blocks, 0, None, owners) if owners else (None, [])
    for pk, points in (newer.by_series() if newer else {}).items():
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


def _unpacked(attempt: int, steps: bytes, values: bytes, times: bytes = b"") -> tuple[_Points, int]:
    """Return the points of a chunk, with times of 0 if there are none, and its attempt."""
    numbers = unpack_ints(steps)
    moments = unpack_floats(times) if times else np.zeros(len(numbers))
    return _Points(numbers, unpack_floats(values), moments), attempt


def _joined(pieces: Sequence[tuple[_Points, int]]) -> _Points:
    """Return the points of chunks without those that a later attempt repeated."""
    if len(pieces) == 1:
        return pieces[0][0]
    columns = zip(*(vars(points).values() for points, _ in pieces), strict=True)
    points = _Points(*map(np.concatenate, columns))
    attempts = np.repeat([attempt for _, attempt in pieces], [len(points.steps) for points, _ in pieces])
    again = superseded(points.steps, attempts)
    return points.at(~again) if again.any() else points


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
    parts: dict[tuple[str, str], list[tuple[_Points, int]]] = {}
    for run, key, attempt, steps, values, times in _rows([run.pk for run in runs], keys, times=True):
        parts.setdefault((run, key), []).append(_unpacked(attempt, steps, values, times))
    points: dict[str, dict[str, _Points]] = {}
    for (run, key), pieces in parts.items():
        points.setdefault(run, {})[key] = _joined(pieces)
    return points

"""Read series."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from django.db.models import Sum

from webapp.metrics.arrays import Floats, Ints, Packed, spell, unpack_floats, unpack_ints
from webapp.metrics.buckets import buckets_of
from webapp.metrics.downsampling import kept_indices
from webapp.metrics.models import Chunk, Series
from webapp.runs.models import Run

DEFAULT_POINTS = 1500
MANY_POINTS = 5000
"""Maximum number of points in a delta; beyond it, clients reload the series."""


@dataclass(frozen=True)
class SeriesFacts:
    """One metric of a run: the number of points, and the last one."""

    key: str
    count: int
    last_step: int
    last_value: float | str
    """NaN and infinities as strings."""
    last_time: float


@dataclass(frozen=True)
class Points:
    """Columns of equal length."""

    steps: Ints
    values: Floats
    times: Floats
    attempts: Ints


class ChunkRow(NamedTuple):
    """The columns of a Chunk."""

    attempt: int
    cursor: int
    size: int
    steps: Packed
    values: Packed
    times: Packed
    cursors: Packed | None


Columns = dict[str, list[Any]]


def keys(run: Run) -> list[SeriesFacts]:
    """Return all metrics of a run, by name."""
    rows = Series.objects.filter(run=run).order_by("key")
    return [
        SeriesFacts(row.key, row.count, row.last_step, spell(row.last_value), row.last_time) for row in rows
    ]


def series_read(
    run: Run,
    keys: Iterable[str],
    points: int = DEFAULT_POINTS,
    since: int = 0,
    until: int | None = None,
    within: tuple[int, int] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return per key {"steps", "values", "times", "attempts"}, stable-sorted by (step, attempt), with JSON types.

    Longer series are reduced to `points` // 4 buckets and also have "buckets": see webapp.metrics.buckets.
    `since` and `until` are cursors (Run.event_count): only points that arrived in (since, until]. A page that continues from
    a cursor with the live feed passes that cursor as `until`, or points of a batch in between would be drawn twice.
    `within`: only steps first to last, inclusive. A key without points is omitted.
    """
    columns = _gather(_chunks(run, keys, since), since, until)
    series = {key: _within(_sorted(column), within) for key, column in columns.items()}
    return {key: _document(column, points) for key, column in series.items() if len(column.steps)}


def points_read(run: Run, key: str) -> Points:
    """Return all points of a key, sorted as in series_read."""
    columns = _gather(_chunks(run, [key], 0), 0, None)
    return _sorted(columns[key]) if key in columns else _no_points()


def points_after(run: Run, cursor: int, until: int) -> dict[str, list[list[Any]]] | None:
    """Return per key [[step, value, time, attempt], ...] of the points that arrived in (cursor, until], in order of arrival.

    None for more than MANY_POINTS (or if much larger chunks have been merged since).
    """
    chunks = Chunk.objects.filter(series__run=run, cursor__gt=cursor).exclude(cursors=None, cursor__gt=until)
    if (chunks.aggregate(total=Sum("count"))["total"] or 0) > 20 * MANY_POINTS:
        return None
    columns = _gather(_chunks(run, None, cursor), cursor, until)
    if sum(len(column.steps) for column in columns.values()) > MANY_POINTS:
        return None
    return {key: _rows(column) for key, column in columns.items()}


def _chunks(run: Run, keys: Iterable[str] | None, since: int) -> list[tuple[str, ChunkRow]]:
    """Return the chunks in order of arrival within an attempt."""
    wanted = Series.objects.filter(run=run)
    names = dict((wanted if keys is None else wanted.filter(key__in=list(keys))).values_list("id", "key"))
    rows = Chunk.objects.filter(series_id__in=names, cursor__gt=since).order_by("id")
    fields = rows.values_list(
        "series_id", "attempt", "cursor", "count", "steps", "values", "times", "cursors"
    )
    return [(names[row[0]], ChunkRow(*row[1:])) for row in fields]


def _gather(chunks: Sequence[tuple[str, ChunkRow]], since: int, until: int | None) -> dict[str, Points]:
    parts: dict[str, list[Points]] = {}
    for key, chunk in chunks:
        piece = _points(chunk, since, until)
        if len(piece.steps):
            parts.setdefault(key, []).append(piece)
    return {key: _joined(pieces) for key, pieces in parts.items()}


def _points(chunk: ChunkRow, since: int, until: int | None) -> Points:
    """Return a chunk's points that arrived in (since, until]."""
    steps, values, times = unpack_ints(chunk.steps), unpack_floats(chunk.values), unpack_floats(chunk.times)
    points = Points(steps, values, times, np.full(chunk.size, chunk.attempt))
    if since == 0 and until is None:
        return points
    cursors = unpack_ints(chunk.cursors) if chunk.cursors else np.full(chunk.size, chunk.cursor)
    wanted = (cursors > since) & (cursors <= (cursors if until is None else until))
    return _taken(points, np.flatnonzero(wanted))


def _joined(pieces: list[Points]) -> Points:
    return Points(
        np.concatenate([piece.steps for piece in pieces]),
        np.concatenate([piece.values for piece in pieces]),
        np.concatenate([piece.times for piece in pieces]),
        np.concatenate([piece.attempts for piece in pieces]),
    )


def _taken(points: Points, indices: Ints) -> Points:
    return Points(
        points.steps[indices], points.values[indices], points.times[indices], points.attempts[indices]
    )


def _no_points() -> Points:
    whole, real = np.empty(0, np.int64), np.empty(0, np.float64)
    return Points(whole, real, real, whole)


def _sorted(points: Points) -> Points:
    """Sort by step, then attempt, then order of arrival (lexsort is stable; its last key is the primary one)."""
    return _taken(points, np.lexsort((points.attempts, points.steps)))


def _within(points: Points, steps: tuple[int, int] | None) -> Points:
    if steps is None:
        return points
    first, end = np.searchsorted(points.steps, steps[0]), np.searchsorted(points.steps, steps[1], "right")
    return _taken(points, np.arange(first, end))


def _document(points: Points, wanted: int) -> dict[str, Any]:
    if len(points.steps) <= wanted:
        return _json(points)
    buckets = buckets_of(points.steps, points.values, points.times, points.attempts)
    return _json(_taken(points, kept_indices(points.values, wanted))) | {"buckets": buckets.json()}


def _json(points: Points) -> Columns:
    return {
        "steps": points.steps.tolist(),
        "values": _spelled(points.values),
        "times": points.times.tolist(),
        "attempts": points.attempts.tolist(),
    }


def _rows(points: Points) -> list[list[Any]]:
    columns = (
        points.steps.tolist(),
        _spelled(points.values),
        points.times.tolist(),
        points.attempts.tolist(),
    )
    return [list(row) for row in zip(*columns, strict=True)]


def _spelled(values: Floats) -> list[float | str]:
    if np.isfinite(values).all():
        return list(values.tolist())
    return [spell(value) for value in values.tolist()]

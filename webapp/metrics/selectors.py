"""Read series."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.db.models import Sum

from webapp.metrics.arrays import Floats, for_charts, milliseconds, spell
from webapp.metrics.buckets import buckets_of
from webapp.metrics.chunks import (
    Points,
    chunks_read,
    no_points,
    points_gather,
    points_sort,
    points_take,
    points_within,
)
from webapp.metrics.downsampling import kept_indices
from webapp.metrics.long_series import Drawn, Wanted, long_read
from webapp.metrics.models import Chunk, Series
from webapp.runs.models import Run

DEFAULT_POINTS = 1500
CHART_POINTS = 600
"""Points of a series on a page of charts, which are 300 to 700 pixels wide. A chart that is zoomed in reads more."""
LONG = 64
"""Stored points for each wanted one from which a series is drawn from outlines; half of a leaf (webapp.metrics.outlines)."""
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
class SeriesRow:
    """The facts of a metric that decide how its points are read, and its last value."""

    pk: int
    key: str
    count: int
    last_value: float


Columns = dict[str, list[Any]]


def keys(run: Run) -> list[SeriesFacts]:
    """Return all metrics of a run, by name."""
    rows = Series.objects.filter(run=run).order_by("key")
    return [
        SeriesFacts(row.key, row.count, row.last_step, spell(row.last_value), row.last_time) for row in rows
    ]


def series_rows(run: Run) -> list[SeriesRow]:
    """Return the rows of all metrics of a run, by name; `series_read` takes them, so that a page reads them once."""
    rows = Series.objects.filter(run=run).order_by("key").values_list("pk", "key", "count", "last_value")
    return [SeriesRow(*row) for row in rows]


def key_names(run: Run) -> list[str]:
    """Return the names of all metrics of a run, by name."""
    return list(Series.objects.filter(run=run).order_by("key").values_list("key", flat=True))


def series_read(
    run: Run,
    keys: Iterable[str],
    points: int = DEFAULT_POINTS,
    since: int = 0,
    until: int | None = None,
    within: tuple[int, int] | None = None,
    rows: Iterable[SeriesRow] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return per key {"steps", "values", "times", "attempts"}, stable-sorted by (step, attempt), with JSON types.

    Longer series are reduced to `points` // 4 buckets, rounded (webapp.metrics.arrays.for_charts; times to milliseconds), and also
    have "buckets": see webapp.metrics.buckets.
    `since` and `until` are cursors (Run.event_count): only points that arrived in (since, until]. A page that continues from
    a cursor with the live feed passes that cursor as `until`, or points of a batch in between would be drawn twice.
    `within`: only steps first to last, inclusive. A key without points is omitted. rows: those of the run, if the page has read them.
    """
    wanted = set(keys)
    if rows is None:
        facts = list(Series.objects.filter(run=run, key__in=wanted).values_list("pk", "key", "count"))
    else:
        facts = [(row.pk, row.key, row.count) for row in rows if row.key in wanted]
    long = {pk: key for pk, key, count in facts if count >= LONG * points}
    short = {pk: key for pk, key, _ in facts if pk not in long}
    columns = points_gather(chunks_read(short, since), since, until) if short else {}
    series = {key: points_within(points_sort(column), within) for key, column in columns.items()}
    documents = {key: _document(column, points) for key, column in series.items() if len(column.steps)}
    if long:
        exact, drawn = long_read(long, Wanted(since, until, within, LONG * points))
        documents |= {key: _document(column, points) for key, column in exact.items() if len(column.steps)}
        documents |= {key: _drawn_document(some, points) for key, some in drawn.items()}
    return documents


def points_read(run: Run, key: str) -> Points:
    """Return all points of a key, sorted as in series_read."""
    names = dict(Series.objects.filter(run=run, key=key).values_list("id", "key"))
    columns = points_gather(chunks_read(names, 0), 0, None) if names else {}
    return points_sort(columns[key]) if key in columns else no_points()


def points_after(run: Run, cursor: int, until: int) -> dict[str, list[list[Any]]] | None:
    """Return per key [[step, value, time, attempt], ...] of the points that arrived in (cursor, until], in order of arrival.

    None for more than MANY_POINTS (or if much larger chunks have been merged since).
    """
    chunks = Chunk.objects.filter(series__run=run, cursor__gt=cursor).exclude(cursors=None, cursor__gt=until)
    if (chunks.aggregate(total=Sum("count"))["total"] or 0) > 20 * MANY_POINTS:
        return None
    names = dict(Series.objects.filter(run=run).values_list("id", "key"))
    columns = points_gather(chunks_read(names, cursor), cursor, until)
    if sum(len(column.steps) for column in columns.values()) > MANY_POINTS:
        return None
    return {key: _rows(column) for key, column in columns.items()}


def _document(points: Points, wanted: int) -> dict[str, Any]:
    if len(points.steps) <= wanted:
        return _json(points)
    buckets = buckets_of(points.steps, points.values, points.times, points.attempts)
    return _reduced(points, wanted) | {"buckets": buckets.json()}


def _drawn_document(drawn: Drawn, wanted: int) -> dict[str, Any]:
    return _reduced(drawn.points, wanted) | {"buckets": drawn.buckets.json()}


def _reduced(points: Points, wanted: int) -> Columns:
    some = points_take(points, kept_indices(points.values, wanted))
    return _json(replace(some, values=for_charts(some.values), times=milliseconds(some.times)))


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

"""Read series: points, points for a chart, points since a cursor.

Downsampling preserves the shape: per bucket of the index its first, last, minimum and maximum value, and a NaN.

Buckets are by index, not by step: steps may repeat or decrease (late points, resumed attempts), and an algorithm with
buckets by step returns nothing for equal steps. M4 ignores NaN; one NaN of every bucket that contains some is kept, so
neither a spike nor a NaN disappears.

Long series are read from the outlines of their chunks. Points are read where an outline is not exact: a chunk that is partly outside of
the wanted steps or cursors, partly repeated by a later attempt, or too short for an outline. Their outline is made here, so that all
parts of the series have the same density. A merge of chunks (webapp.metrics.services) can come between two queries of a read. Then the
read is repeated. If it fails again, all points are read by one query.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from numpy.typing import NDArray
from tsdownsample import M4Downsampler

from troupe_client.documents.metrics import Metric
from webapp.metrics.arrays import Floats, Packed, for_charts, milliseconds, spell
from webapp.metrics.models import Block, Chunk, Series
from webapp.metrics.names import NameQuery, names_list
from webapp.metrics.points import (
    COLUMNS,
    Buckets,
    ChunkRow,
    Outline,
    Points,
    Wide,
    blocks_join,
    blocks_read,
    buckets_joined,
    buckets_of,
    chunk_points,
    no_points,
    outline_of,
    outline_unpack,
    points_arrived,
    points_sort,
    points_within,
)
from webapp.metrics.services import NARROW
from webapp.runs.models import Run

Row = TypeVar("Row")
TRIES = 2
"""Number of reads from outlines before all points are read."""


class _Merged(Exception):
    """Chunks were merged since their heads were read."""


@dataclass(frozen=True)
class Wanted:
    """What is read: points that arrived in (since, until], at steps first to last of `within`."""

    since: int
    until: int | None
    within: tuple[int, int] | None
    enough: int = 0
    """Number of points from which a series is drawn from outlines."""


@dataclass(frozen=True)
class Drawn:
    """A series to draw: retained points sorted as in webapp.metrics.points, and the buckets of all valid points."""

    points: Points
    buckets: Buckets


class Head(NamedTuple):
    """Facts of a chunk without its points."""

    pk: int
    series: int
    attempt: int
    cursor: int
    size: int
    first: int | None
    last: int | None
    outlined: bool


def long_read(
    run: Run, names: Mapping[int, str], wanted: Wanted
) -> tuple[dict[str, Points], dict[str, Drawn]]:
    """Return these series (id -> key): all points of those with fewer than `wanted.enough`, and what is drawn of the others.

    All points of all series if chunks are merged during each of TRIES reads.
    """
    for _ in range(TRIES):
        try:
            return _read(run, names, wanted)
        except _Merged:
            continue
    return _whole(run, names, wanted), {}


def _whole(run: Run, names: Mapping[int, str], wanted: Wanted) -> dict[str, Points]:
    """Return the wanted points of these series."""
    columns = points_arrived([run.pk], names, wanted.since, wanted.until)
    return {names[pk]: points_within(points_sort(points), wanted.within) for pk, points in columns.items()}


def _read(run: Run, names: Mapping[int, str], wanted: Wanted) -> tuple[dict[str, Points], dict[str, Drawn]]:
    """Do a read of `long_read`. Raises _Merged."""
    recent = blocks_read([run.pk], names, wanted.since, wanted.until)
    heads = _heads(names, wanted)
    whole = {head.pk for head in heads if _is_whole(head, wanted)}
    loose = _loose([head for head in heads if head.pk not in whole], wanted)
    _join(loose, _recent(recent, heads, wanted))
    starts = _starts([head for head in heads if head.pk in whole], loose)
    few = set(names) - {pk for pk, count in _counts(heads, whole, loose).items() if count >= wanted.enough}
    outlined = [
        head for head in heads if head.pk in whole and head.series not in few and _is_exact(head, starts)
    ]
    also = whole - {head.pk for head in outlined}
    _join(loose, _loose([head for head in heads if head.pk in also], wanted))
    exact: dict[int, list[Points]] = {}
    for (series, _), points in loose.items():
        if series in few:
            exact.setdefault(series, []).append(points)
    parts = _outlined(outlined, starts)
    for (series, attempt), points in loose.items():
        if series not in few and len(points.steps):
            parts.setdefault(series, []).append((attempt, _outline(points, attempt, starts[series])))
    return (
        {names[series]: points_sort(Points.join(pieces)) for series, pieces in exact.items()},
        {names[series]: _drawn(some) for series, some in parts.items()},
    )


def _recent(
    recent: Mapping[int, Wide], heads: Sequence[Head], wanted: Wanted
) -> dict[tuple[int, int], Points]:
    """Return the wanted points of blocks, read before the heads, that are in none of the chunks, by series and attempt, sorted."""
    ends: dict[int, int] = {}
    for head in heads:
        ends[head.series] = max(head.cursor, ends.get(head.series, 0))
    return {
        (series, attempt): points_within(points_sort(some), wanted.within)
        for series, points in recent.items()
        for attempt, some in points.after(ends.get(series, 0)).by_attempt().items()
    }


def _join(loose: dict[tuple[int, int], Points], more: Mapping[tuple[int, int], Points]) -> None:
    """Add points by series and attempt."""
    for origin, points in more.items():
        loose[origin] = points_sort(Points.join([loose[origin], points])) if origin in loose else points


def _loose(heads: Sequence[Head], wanted: Wanted) -> dict[tuple[int, int], Points]:
    """Return the wanted points of these chunks by series and attempt, sorted."""
    read = _chunks([head.pk for head in heads])
    pieces: dict[tuple[int, int], list[Points]] = {}
    for head in heads:
        piece = chunk_points(read[head.pk], wanted.since, wanted.until)
        pieces.setdefault((head.series, head.attempt), []).append(piece)
    return {
        origin: points_within(points_sort(Points.join(some)), wanted.within)
        for origin, some in pieces.items()
    }


def _counts(
    heads: Sequence[Head], whole: set[int], loose: Mapping[tuple[int, int], Points]
) -> dict[int, int]:
    """Return the number of wanted points by series."""
    counts: dict[int, int] = {}
    for head in heads:
        counts[head.series] = counts.get(head.series, 0) + (head.size if head.pk in whole else 0)
    for (series, _), points in loose.items():
        counts[series] = counts.get(series, 0) + len(points.steps)
    return counts


def _outlined(
    heads: Sequence[Head], starts: Mapping[int, Mapping[int, int]]
) -> dict[int, list[tuple[int, Outline]]]:
    """Return attempt and outline of these chunks by series."""
    packed = _outlines([head.pk for head in heads])
    parts: dict[int, list[tuple[int, Outline]]] = {}
    for head in heads:
        outline = _current(head, outline_unpack(packed[head.pk]), starts)
        parts.setdefault(head.series, []).append((head.attempt, outline))
    return parts


def _heads(names: Mapping[int, str], wanted: Wanted) -> list[Head]:
    outlined = ExpressionWrapper(Q(outline__isnull=False), output_field=BooleanField())
    rows = Chunk.objects.filter(series_id__in=names, cursor__gt=wanted.since).order_by("id")
    if wanted.within:
        first, last = wanted.within
        rows = rows.filter(Q(first_step=None) | Q(first_step__lte=last, last_step__gte=first))
    fields = ("id", "series_id", "attempt", "cursor", "count", "first_step", "last_step")
    return [Head(*row) for row in rows.values_list(*fields, outlined)]


def _starts(whole: Sequence[Head], loose: Mapping[tuple[int, int], Points]) -> dict[int, dict[int, int]]:
    """Return the first wanted step of each attempt by series, of whole chunks and of the points of the others."""
    firsts = [(head.series, head.attempt, head.first) for head in whole if head.first is not None]
    firsts += [(*origin, int(points.steps[0])) for origin, points in loose.items() if len(points.steps)]
    starts: dict[int, dict[int, int]] = {}
    for series, attempt, first in firsts:
        of_series = starts.setdefault(series, {})
        of_series[attempt] = min(first, of_series.get(attempt, first))
    return starts


def _repeated(head: Head, starts: Mapping[int, Mapping[int, int]]) -> int | None:
    """Return the first step that a later attempt repeats."""
    later = [step for attempt, step in starts[head.series].items() if attempt > head.attempt]
    return min(later, default=None)


def _is_whole(head: Head, wanted: Wanted) -> bool:
    """Whether the chunk has an outline and all of its points are wanted."""
    if not head.outlined or head.first is None or head.last is None or wanted.since:
        return False
    if wanted.until is not None and head.cursor > wanted.until:
        return False
    return not wanted.within or (wanted.within[0] <= head.first and head.last <= wanted.within[1])


def _is_exact(head: Head, starts: Mapping[int, Mapping[int, int]]) -> bool:
    """Whether the outline of a whole chunk contains what the points would: none or all of them are repeated."""
    again = _repeated(head, starts)
    return again is None or head.first is None or head.last is None or not head.first < again <= head.last


def _outlines(ids: Sequence[int]) -> dict[int, Packed]:
    """Return the outlines of these chunks. Raises _Merged."""
    rows = Chunk.objects.filter(pk__in=ids).values_list("pk", "outline") if ids else ()
    return _complete(ids, {pk: outline for pk, outline in rows if outline is not None})


def _chunks(ids: Sequence[int]) -> dict[int, ChunkRow]:
    """Return the points of these chunks. Raises _Merged."""
    if not ids:
        return {}
    rows = Chunk.objects.filter(pk__in=ids).values_list("pk", *COLUMNS)
    return _complete(ids, {row[0]: ChunkRow(*row[1:]) for row in rows})


def _complete(ids: Sequence[int], rows: dict[int, Row]) -> dict[int, Row]:
    if len(rows) < len(ids):
        raise _Merged
    return rows


def _current(head: Head, outline: Outline, starts: Mapping[int, Mapping[int, int]]) -> Outline:
    """Return the outline without leaves if a later attempt repeats all of its points."""
    again = _repeated(head, starts)
    if again is None or head.first is None or head.first < again:
        return outline
    return Outline(outline.steps, outline.values, outline.times, _none(outline.leaves))


def _none(leaves: Buckets) -> Buckets:
    return Buckets(*(column[:0] for column in vars(leaves).values()))


def _outline(points: Points, attempt: int, starts: Mapping[int, int]) -> Outline:
    """Return the outline of points of one attempt; repeated ones are drawn, but are in no bucket."""
    whole = outline_of(points.steps, points.values, points.times)
    later = [step for other, step in starts.items() if other > attempt]
    if not later or points.steps[-1] < min(later):
        return whole
    end = int(np.searchsorted(points.steps, min(later)))
    valid = outline_of(points.steps[:end], points.values[:end], points.times[:end]) if end else None
    return Outline(whole.steps, whole.values, whole.times, valid.leaves if valid else _none(whole.leaves))


def _drawn(parts: Sequence[tuple[int, Outline]]) -> Drawn:
    pieces = [
        Points(outline.steps, outline.values, outline.times, np.full(len(outline.steps), attempt))
        for attempt, outline in parts
    ]
    return Drawn(points_sort(Points.join(pieces)), buckets_joined([outline.leaves for _, outline in parts]))


PER_BUCKET = 4


def kept_indices(values: Floats, points: int) -> NDArray[np.int64]:
    """Return sorted indices of about `points` of the values (at most a quarter more if there are NaNs); all if they fit."""
    if len(values) <= points:
        return np.arange(len(values))
    buckets = max(1, points // PER_BUCKET)
    odd = np.flatnonzero(np.isnan(values))
    _, firsts = np.unique(odd * buckets // len(values), return_index=True)
    ends = np.array([0, len(values) - 1])
    finite = np.flatnonzero(~np.isnan(values))
    return np.unique(np.concatenate([ends, odd[firsts], finite[_m4(values[finite], buckets)]]))


def _m4(values: Floats, buckets: int) -> NDArray[np.int64]:
    if len(values) <= buckets * PER_BUCKET:
        return np.arange(len(values))
    downsampler = M4Downsampler()  # type: ignore[no-untyped-call]
    return np.asarray(
        downsampler.downsample(np.ascontiguousarray(values), n_out=buckets * PER_BUCKET), dtype=np.int64
    )


DEFAULT_POINTS = 1500
CHART_POINTS = 600
"""Points of a series on a page of charts, which are 300 to 700 pixels wide. A chart that is zoomed in reads more."""
END_POINTS = 8
"""Points of a series of which only the first, the last and the extremes are shown."""
LONG = 64
"""Stored points for each wanted one from which a series is drawn from outlines; half of a leaf (webapp.metrics.points)."""
MANY_POINTS = 5000
"""Maximum number of points in a delta; beyond it, clients reload the series."""


MOST_LISTED = 10_000
"""Maximum number of metrics that a search returns."""


# One query, because deltas need it many times a second: the recent blocks, and the names of the metrics unless they are many.
_RECENT = """
SELECT * FROM (
  SELECT id, attempt, cursor, count, series, steps, "values", times, cursors, sum(count) OVER (ORDER BY id) AS total, NULL::text AS key
  FROM metrics_block WHERE run_id = %s AND cursor > %s AND (cursor <= %s OR cursors IS NOT NULL OR count = 0)
) AS recent WHERE total < %s + count
UNION ALL
SELECT id, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, key FROM metrics_series WHERE run_id = %s AND %s
"""


@dataclass(frozen=True)
class SeriesRow:
    """The facts of a metric that decide how its points are read, and its last value."""

    pk: int
    key: str
    count: int
    last_value: float


Columns = dict[str, list[Any]]


def keys(run: Run, query: NameQuery | None = None, most: int | None = None) -> list[Metric]:
    """Return the metrics of a run that match (None: all), by name; at most `most`. Raises BadPattern."""
    rows = Series.objects.filter(run=run).order_by("key")
    if query is not None and (query.words or query.pattern):
        named = names_list(run, query, MOST_LISTED if most is None else most)
        rows = rows.filter(key__in=named)
    facts = rows.values_list("key", "count", "last_step", "last_value", "last_time")[:most]
    return [  # not validated: a run may have 100,000 metrics
        Metric.model_construct(key=key, count=count, last_step=step, last_value=spell(value), last_time=time)
        for key, count, step, value, time in facts
    ]


def step_next(run: Run) -> int:
    """Return the step after the last one of the newest attempt with points; 0 without points."""
    newest = Series.objects.filter(run=run).order_by("-last_attempt", "-last_step").first()
    return newest.last_step + 1 if newest else 0


def series_rows(run: Run) -> list[SeriesRow]:
    """Return the rows of all metrics of a run, by name; `series_read` takes them, so that a page reads them once."""
    return _series_rows(Series.objects.filter(run=run).order_by("key"))


def _series_rows(series: QuerySet[Series]) -> list[SeriesRow]:
    return [SeriesRow(*row) for row in series.values_list("pk", "key", "count", "last_value")]


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
    ends: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
    """Return per key {"steps", "values", "times", "attempts"}, stable-sorted by (step, attempt), with JSON types.

    Longer series are reduced to `points` // 4 buckets, rounded (webapp.metrics.arrays.for_charts; times to milliseconds), and also
    have "buckets": see webapp.metrics.points.
    `since` and `until` are cursors (Run.event_count): only points that arrived in (since, until]. A page that continues from
    a cursor with the live feed passes that cursor as `until`, or points of a batch in between would be drawn twice.
    `within`: only steps first to last, inclusive. A key without points is omitted. rows: those of the run, if the page has read them.
    ends: keys that are reduced to END_POINTS.
    """
    wanted, size = set(keys), dict.fromkeys(ends, END_POINTS)
    if rows is None:
        rows = _series_rows(Series.objects.filter(run=run, key__in=wanted))
    facts = [row for row in rows if row.key in wanted]
    long = {row.pk: row.key for row in facts if row.count >= LONG * points}
    short = {row.pk: row.key for row in facts if row.pk not in long}
    series = _whole(run, short, Wanted(since, until, within)) if short else {}
    drawn: dict[str, Drawn] = {}
    if long:
        exact, drawn = long_read(run, long, Wanted(since, until, within, LONG * points))
        series |= exact
    documents = {
        key: _document(some, size.get(key, points)) for key, some in series.items() if len(some.steps)
    }
    return documents | {key: _drawn_document(some, size.get(key, points)) for key, some in drawn.items()}


def points_read(run: Run, key: str) -> Points:
    """Return all points of a key, sorted as in series_read."""
    ids = list(Series.objects.filter(run=run, key=key).values_list("id", flat=True))
    columns = points_arrived([run.pk], ids) if ids else {}
    return points_sort(columns[ids[0]]) if columns else no_points()


def points_after(run: Run, cursor: int, until: int) -> dict[str, list[list[Any]]] | None:
    """Return per key [[step, value, time, attempt], ...] of the points that arrived in (cursor, until], in order of arrival.

    None for more than MANY_POINTS, if much larger chunks or blocks have been merged since, or if points of many metrics were moved to
    chunks.
    """
    narrow, most = run.series_count <= NARROW, 20 * MANY_POINTS
    rows: list[Any] = list(Block.objects.raw(_RECENT, [run.pk, cursor, until, most, run.pk, narrow]))
    names = {row.pk: row.key for row in rows if row.key is not None}
    blocks = sorted((row for row in rows if row.key is None), key=lambda row: row.pk)
    if blocks and blocks[-1].total > most:
        return None
    if all(block.count for block in blocks):
        points: Mapping[int, Points] = blocks_join(blocks, None, cursor, until)
    elif narrow:  # some were moved to chunks
        chunks = Chunk.objects.filter(series__in=names, cursor__gt=cursor)
        if sum(chunks.exclude(cursors=None, cursor__gt=until).values_list("count", flat=True)) > most:
            return None
        points = points_arrived([run.pk], names, cursor, until)
    else:
        return None
    if sum(len(some.steps) for some in points.values()) > MANY_POINTS:
        return None
    if points and not narrow:
        names = dict(Series.objects.filter(pk__in=list(points)).values_list("id", "key"))
    return {names[pk]: _rows(some) for pk, some in points.items()}


def _document(points: Points, wanted: int) -> dict[str, Any]:
    if len(points.steps) <= wanted:
        return _json(points)
    buckets = buckets_of(points.steps, points.values, points.times, points.attempts)
    return _reduced(points, wanted) | {"buckets": buckets.json()}


def _drawn_document(drawn: Drawn, wanted: int) -> dict[str, Any]:
    return _reduced(drawn.points, wanted) | {"buckets": drawn.buckets.json()}


def _reduced(points: Points, wanted: int) -> Columns:
    some = points.take(kept_indices(points.values, wanted))
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

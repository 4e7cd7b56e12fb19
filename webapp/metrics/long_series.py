"""Long series from the outlines of their chunks: the points of few chunks are read.

Points are read where an outline is not exact: a chunk that is partly outside of the wanted steps or cursors, partly repeated by a later
attempt, or too short for an outline. Their outline is made here, so that all parts of the series have the same density.

A merge of chunks (webapp.metrics.services) can come between two queries of a read. Then the read is repeated. If it fails
again, all points are read by one query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from django.db.models import BooleanField, ExpressionWrapper, Q

from webapp.metrics.arrays import Packed
from webapp.metrics.buckets import Buckets
from webapp.metrics.chunks import (
    COLUMNS,
    ChunkRow,
    Points,
    chunk_points,
    chunks_read,
    points_gather,
    points_join,
    points_sort,
    points_within,
)
from webapp.metrics.models import Chunk
from webapp.metrics.outlines import Outline, buckets_joined, outline_of, outline_unpack

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
    enough: int
    """Number of points from which a series is drawn from outlines."""


@dataclass(frozen=True)
class Drawn:
    """A series to draw: retained points sorted as in webapp.metrics.chunks, and the buckets of all valid points."""

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


def long_read(names: Mapping[int, str], wanted: Wanted) -> tuple[dict[str, Points], dict[str, Drawn]]:
    """Return these series (id -> key): all points of those with fewer than `wanted.enough`, and what is drawn of the others.

    All points of all series if chunks are merged during each of TRIES reads.
    """
    for _ in range(TRIES):
        try:
            return _read(names, wanted)
        except _Merged:
            continue
    columns = points_gather(chunks_read(names, wanted.since), wanted.since, wanted.until)
    return {key: points_within(points_sort(column), wanted.within) for key, column in columns.items()}, {}


def _read(names: Mapping[int, str], wanted: Wanted) -> tuple[dict[str, Points], dict[str, Drawn]]:
    """Do a read of `long_read`. Raises _Merged."""
    heads = _heads(names, wanted)
    whole = {head.pk for head in heads if _is_whole(head, wanted)}
    loose = _loose([head for head in heads if head.pk not in whole], wanted)
    starts = _starts([head for head in heads if head.pk in whole], loose)
    few = set(names) - {pk for pk, count in _counts(heads, whole, loose).items() if count >= wanted.enough}
    outlined = [
        head for head in heads if head.pk in whole and head.series not in few and _is_exact(head, starts)
    ]
    also = whole - {head.pk for head in outlined}
    for origin, points in _loose([head for head in heads if head.pk in also], wanted).items():
        loose[origin] = points_sort(points_join([points, loose[origin]])) if origin in loose else points
    exact: dict[int, list[Points]] = {}
    for (series, _), points in loose.items():
        if series in few:
            exact.setdefault(series, []).append(points)
    parts = _outlined(outlined, starts)
    for (series, attempt), points in loose.items():
        if series not in few and len(points.steps):
            parts.setdefault(series, []).append((attempt, _outline(points, attempt, starts[series])))
    return (
        {names[series]: points_sort(points_join(pieces)) for series, pieces in exact.items()},
        {names[series]: _drawn(some) for series, some in parts.items()},
    )


def _loose(heads: Sequence[Head], wanted: Wanted) -> dict[tuple[int, int], Points]:
    """Return the wanted points of these chunks by series and attempt, sorted."""
    read = _chunks([head.pk for head in heads])
    pieces: dict[tuple[int, int], list[Points]] = {}
    for head in heads:
        piece = chunk_points(read[head.pk], wanted.since, wanted.until)
        pieces.setdefault((head.series, head.attempt), []).append(piece)
    return {
        origin: points_within(points_sort(points_join(some)), wanted.within)
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
        counts[series] += len(points.steps)
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
    return Drawn(points_sort(points_join(pieces)), buckets_joined([outline.leaves for _, outline in parts]))

"""The points in stored chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from webapp.metrics.arrays import Floats, Ints, Packed, unpack_floats, unpack_ints
from webapp.metrics.models import Chunk


@dataclass(frozen=True)
class Points:
    """Columns of equal length."""

    steps: Ints
    values: Floats
    times: Floats
    attempts: Ints


class ChunkRow(NamedTuple):
    """The points of a Chunk."""

    attempt: int
    cursor: int
    size: int
    steps: Packed
    values: Packed
    times: Packed
    cursors: Packed | None


COLUMNS = ("attempt", "cursor", "count", "steps", "values", "times", "cursors")


def chunks_read(names: Mapping[int, str], since: int) -> list[tuple[str, ChunkRow]]:
    """Return the chunks of these series (id -> key) in order of arrival within an attempt."""
    rows = Chunk.objects.filter(series_id__in=names, cursor__gt=since).order_by("id")
    return [(names[row[0]], ChunkRow(*row[1:])) for row in rows.values_list("series_id", *COLUMNS)]


def points_gather(chunks: Sequence[tuple[str, ChunkRow]], since: int, until: int | None) -> dict[str, Points]:
    """Return the points that arrived in (since, until] by key, in order of arrival; keys without any are omitted."""
    parts: dict[str, list[Points]] = {}
    for key, chunk in chunks:
        piece = chunk_points(chunk, since, until)
        if len(piece.steps):
            parts.setdefault(key, []).append(piece)
    return {key: points_join(pieces) for key, pieces in parts.items()}


def chunk_points(chunk: ChunkRow, since: int, until: int | None) -> Points:
    """Return a chunk's points that arrived in (since, until]."""
    steps, values, times = unpack_ints(chunk.steps), unpack_floats(chunk.values), unpack_floats(chunk.times)
    points = Points(steps, values, times, np.full(chunk.size, chunk.attempt))
    if since == 0 and (until is None or chunk.cursor <= until):
        return points
    cursors = unpack_ints(chunk.cursors) if chunk.cursors else np.full(chunk.size, chunk.cursor)
    wanted = (cursors > since) & (cursors <= (cursors if until is None else until))
    return points_take(points, np.flatnonzero(wanted))


def points_join(pieces: Sequence[Points]) -> Points:
    """Concatenate points."""
    columns = zip(*(vars(piece).values() for piece in pieces), strict=True)
    return Points(*(np.concatenate(column) for column in columns))


def points_take(points: Points, indices: Ints) -> Points:
    """Return the points at these indices."""
    return Points(
        points.steps[indices], points.values[indices], points.times[indices], points.attempts[indices]
    )


def no_points() -> Points:
    """Return empty columns."""
    whole, real = np.empty(0, np.int64), np.empty(0, np.float64)
    return Points(whole, real, real, whole)


def points_sort(points: Points) -> Points:
    """Sort by step, then attempt, then order of arrival (lexsort is stable; its last key is the primary one)."""
    steps, attempts = points.steps, points.attempts
    if len(steps) < 2 or ((steps[1:] > steps[:-1]).all() if attempts[0] == attempts[-1] else False):
        return points  # strictly increasing: nothing to sort
    return points_take(points, np.lexsort((attempts, steps)))


def points_within(points: Points, steps: tuple[int, int] | None) -> Points:
    """Return the sorted points from the first to the last of `steps`, inclusive."""
    if steps is None:
        return points
    first, end = np.searchsorted(points.steps, steps[0]), np.searchsorted(points.steps, steps[1], "right")
    return points_take(points, np.arange(first, end))

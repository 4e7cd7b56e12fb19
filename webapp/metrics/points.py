"""Points of metrics as arrays, and how they are stored: chunks of one series with their outlines, and blocks of many series.

A long series is drawn by its extremes (webapp.metrics.selectors). A moving average over those would depend on their number, so that
it also has a few hundred buckets with mean, minimum and maximum of all valid points: finite, and not repeated by a later attempt.

The outline of a chunk has a few real points and a mean for every LEAF points, from which a long series is drawn without its points.
A leaf is LEAF consecutive points by step. Of each leaf the outline retains the first, the last, the smallest and the largest point, one
NaN, and count, mean, minimum and maximum of the finite values. A series of a million points has 8,000 leaves, so that a chart of
twenty such series reads 3 % of their points; no spike and no NaN is lost (webapp.metrics.selectors works on the retained points).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from webapp.metrics.arrays import (
    Floats,
    Ints,
    Packed,
    for_charts,
    milliseconds,
    pack_floats,
    pack_ints,
    unpack_floats,
    unpack_ints,
)
from webapp.metrics.models import Block, Chunk

BUCKETS = 300


@dataclass(frozen=True)
class Buckets:
    """Columns of equal length, by step. A bucket's step and time are those of its last point."""

    steps: Ints
    times: Floats
    means: Floats
    lows: Floats
    highs: Floats
    counts: Ints

    def json(self) -> dict[str, list[Any]]:
        """Return the buckets with JSON types only, rounded for charts."""
        numbers = {name: for_charts(getattr(self, name)) for name in ("means", "lows", "highs")}
        columns = vars(self) | numbers | {"times": milliseconds(self.times)}
        return {name: column.tolist() for name, column in columns.items()}


def superseded(steps: Ints, attempts: Ints) -> NDArray[np.bool_]:
    """Return a mask of the points repeated by a later attempt: those at or after its first step."""
    if not len(attempts) or attempts.min() == attempts.max():
        return np.zeros(len(steps), bool)
    starts = {attempt: steps[attempts == attempt].min() for attempt in np.unique(attempts)}
    again = np.zeros(len(steps), bool)
    for attempt, start in starts.items():
        again |= (attempts < attempt) & (steps >= start)
    return again


def buckets_of(steps: Ints, values: Floats, times: Floats, attempts: Ints, wanted: int = BUCKETS) -> Buckets:
    """Return columns sorted by (step, attempt), in `wanted` buckets of equally many points (up to one)."""
    valid = np.isfinite(values) & ~superseded(steps, attempts)
    if not valid.all():  # copies of a million points take longer than their buckets
        steps, values, times = steps[valid], values[valid], times[valid]
    total = len(values)
    if not total:
        return Buckets(steps, times, values, values, values, steps)
    edges = np.arange(min(wanted, total) + 1) * total // min(wanted, total)
    firsts, counts = edges[:-1], np.diff(edges)
    return Buckets(
        steps=steps[edges[1:] - 1],
        times=times[edges[1:] - 1],
        means=np.add.reduceat(values, firsts) / counts,
        lows=np.minimum.reduceat(values, firsts),
        highs=np.maximum.reduceat(values, firsts),
        counts=counts,
    )


@dataclass(frozen=True)
class Points:
    """Points of a series: columns of equal length."""

    steps: Ints
    values: Floats
    times: Floats
    attempts: Ints

    def take(self, which: "Ints | NDArray[np.bool_]") -> Self:
        """Return the points at these indices, or where a mask is true."""
        return type(self)(*(column[which] for column in vars(self).values()))

    def by_attempt(self) -> dict[int, Self]:
        """Return the points of each attempt, in the same order; the attempts in order of arrival."""
        attempts = dict.fromkeys(self.attempts.tolist())
        return {attempt: self.take(np.flatnonzero(self.attempts == attempt)) for attempt in attempts}

    @classmethod
    def join(cls, pieces: "Sequence[Self]") -> Self:
        """Concatenate at least one piece."""
        columns = zip(*(vars(piece).values() for piece in pieces), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


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


def chunk_points(chunk: ChunkRow, since: int, until: int | None) -> Points:
    """Return a chunk's points that arrived in (since, until]."""
    steps, values, times = unpack_ints(chunk.steps), unpack_floats(chunk.values), unpack_floats(chunk.times)
    points = Points(steps, values, times, np.full(chunk.size, chunk.attempt))
    if since == 0 and (until is None or chunk.cursor <= until):
        return points
    cursors = unpack_ints(chunk.cursors) if chunk.cursors else np.full(chunk.size, chunk.cursor)
    wanted = (cursors > since) & (cursors <= (cursors if until is None else until))
    return points.take(np.flatnonzero(wanted))


def no_points() -> Points:
    """Return empty columns."""
    whole, real = np.empty(0, np.int64), np.empty(0, np.float64)
    return Points(whole, real, real, whole)


def points_sort(points: Points) -> Points:
    """Sort by step, then attempt, then order of arrival (lexsort is stable; its last key is the primary one)."""
    steps, attempts = points.steps, points.attempts
    if len(steps) < 2 or ((steps[1:] > steps[:-1]).all() if attempts[0] == attempts[-1] else False):
        return points  # strictly increasing: nothing to sort
    return points.take(np.lexsort((attempts, steps)))


def points_within(points: Points, steps: tuple[int, int] | None) -> Points:
    """Return the sorted points from the first to the last of `steps`, inclusive."""
    if steps is None:
        return points
    first, end = np.searchsorted(points.steps, steps[0]), np.searchsorted(points.steps, steps[1], "right")
    return points.take(np.arange(first, end))


LEAF = 128
SHORTEST = 4 * LEAF
"""Minimum number of points of a chunk with an outline."""


@dataclass(frozen=True)
class Outline:
    """Retained points by step, and the leaves with a finite value as buckets."""

    steps: Ints
    values: Floats
    times: Floats
    leaves: Buckets


def outline_of(steps: Ints, values: Floats, times: Floats) -> Outline:
    """Return the outline of points in order of arrival."""
    if len(steps) > 1 and (steps[1:] < steps[:-1]).any():
        order = np.argsort(steps, kind="stable")
        steps, values, times = steps[order], values[order], times[order]
    retained = _retained(values)
    leaves = _leaves(steps, values, times)
    return Outline(steps[retained], values[retained], times[retained], leaves)


def outlined(
    steps: Sequence[int] | Ints, values: Sequence[float] | Floats, times: Sequence[float] | Floats
) -> bytes | None:
    """Return the packed outline of a chunk; None for a few points."""
    if len(steps) < SHORTEST:
        return None
    return outline_pack(outline_of(np.asarray(steps), np.asarray(values), np.asarray(times)))


def _table(values: Floats, missing: float) -> Floats:
    """Return values as rows of LEAF, the last one filled with `missing`."""
    rows = -(-len(values) // LEAF)
    table = np.full(rows * LEAF, missing)
    table[: len(values)] = values
    return table.reshape(rows, LEAF)


def _retained(values: Floats) -> Ints:
    """Return sorted indices: first, last, smallest and largest number and first NaN of each leaf, and both ends."""
    table = _table(values, np.nan)
    odd = np.isnan(table)
    starts = np.arange(len(table)) * LEAF
    numbers = ~odd
    columns = [
        np.where(odd, np.inf, table).argmin(axis=1),
        np.where(odd, -np.inf, table).argmax(axis=1),
        numbers.argmax(axis=1),
        LEAF - 1 - numbers[:, ::-1].argmax(axis=1),
        odd.argmax(axis=1),
    ]
    indices = np.concatenate([starts + column for column in columns] + [np.array([0, len(values) - 1])])
    return np.unique(np.minimum(indices, len(values) - 1))


def _leaves(steps: Ints, values: Floats, times: Floats) -> Buckets:
    finite = np.isfinite(_table(values, np.nan))
    counts = finite.sum(axis=1)
    some = counts > 0
    finite, counts = finite[some], counts[some].astype(np.int64)
    table = _table(values, np.nan)[some]
    lasts = np.flatnonzero(some) * LEAF + LEAF - 1 - finite[:, ::-1].argmax(axis=1)
    with np.errstate(over="ignore"):
        means = np.where(finite, table, 0.0).sum(axis=1) / counts
    lows, highs = (
        np.where(finite, table, np.inf).min(axis=1, initial=np.inf),
        np.where(finite, table, -np.inf).max(axis=1, initial=-np.inf),
    )
    return Buckets(steps[lasts], times[lasts], means, lows, highs, counts)


def outline_pack(outline: Outline) -> bytes:
    """Pack as the number of retained points, then all columns of 8 bytes, zstd."""
    columns = (outline.steps, outline.values, outline.times, *vars(outline.leaves).values())
    words = [column.view(np.int64) for column in map(np.ascontiguousarray, columns)]
    return pack_ints(np.concatenate([np.array([len(outline.steps)]), *words]))


def outline_unpack(data: Packed) -> Outline:
    """Inverse of outline_pack."""
    words = unpack_ints(data)
    retained, rest = int(words[0]), words[1:]
    steps, values, times = rest[: 3 * retained].reshape(3, retained)
    leaves = rest[3 * retained :].reshape(6, -1)
    reals = leaves[1:5].view(np.float64)
    return Outline(
        steps,
        values.view(np.float64),
        times.view(np.float64),
        Buckets(leaves[0], reals[0], reals[1], reals[2], reals[3], leaves[5]),
    )


def buckets_joined(parts: list[Buckets], wanted: int = BUCKETS) -> Buckets:
    """Merge leaves, by step, into about `wanted` buckets of equally many points, up to a leaf."""
    columns = [
        np.concatenate(column) for column in zip(*(vars(part).values() for part in parts), strict=True)
    ]
    order = np.argsort(columns[0], kind="stable")
    steps, times, means, lows, highs, counts = (column[order] for column in columns)
    if not len(steps):
        return Buckets(steps, times, means, lows, highs, counts)
    ends = np.cumsum(counts)
    places = (ends - 1) * min(wanted, len(steps)) // ends[-1]
    firsts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    lasts = np.append(firsts[1:], len(steps)) - 1
    totals = np.add.reduceat(counts, firsts)
    return Buckets(
        steps=steps[lasts],
        times=times[lasts],
        means=np.add.reduceat(means * counts, firsts) / totals,
        lows=np.minimum.reduceat(lows, firsts),
        highs=np.maximum.reduceat(highs, firsts),
        counts=totals,
    )


GROUP = 1024
"""Number of consecutive ids of series whose points share blocks."""


@dataclass(frozen=True)
class Wide(Points):
    """Points of many series in order of arrival."""

    series: Ints
    cursors: Ints

    def after(self, cursor: int) -> Points:
        """Return those that arrived after a cursor, without their series."""
        some = self.take(np.flatnonzero(self.cursors > cursor))
        return Points(some.steps, some.values, some.times, some.attempts)

    def by_series(self) -> dict[int, Self]:
        """Return the points of each series, in the same order."""
        return {name: self.take(piece) for name, piece in _pieces(self.series)}

    def by_group(self) -> list[Self]:
        """Return the points of each GROUP of series, in the same order."""
        return [self.take(piece) for _, piece in _pieces(self.series // GROUP)]


def _pieces(labels: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each label with its indices, in order."""
    order = np.argsort(labels, kind="stable")
    names, starts = np.unique(labels[order], return_index=True)
    yield from zip(names.tolist(), np.split(order, starts)[1:], strict=True)


def unpack(row: Block | Chunk) -> Wide:
    """Return the points of a block or a chunk."""
    series = unpack_ints(row.series) if isinstance(row, Block) else np.full(row.count, row.series_id)
    cursors = unpack_ints(row.cursors) if row.cursors else np.full(row.count, row.cursor)
    steps, values, times = unpack_ints(row.steps), unpack_floats(row.values), unpack_floats(row.times)
    return Wide(steps, values, times, np.full(row.count, row.attempt), series, cursors)


def block_pack(run_id: str, points: Wide, *, summed: bool, merged: bool = False) -> Block:
    """Return an unsaved block of points of one group and attempt; with the cursor of each point if it is merged."""
    return Block(
        run_id=run_id,
        group=int(points.series[0]) // GROUP,
        attempt=int(points.attempts[0]),
        cursor=int(points.cursors.max()),
        count=len(points.steps),
        series=pack_ints(points.series),
        steps=pack_ints(points.steps),
        values=pack_floats(points.values),
        times=pack_floats(points.times),
        cursors=pack_ints(points.cursors) if merged else None,
        summed=summed,
    )


def blocks_read(
    runs: Collection[str], ids: Collection[int], since: int = 0, until: int | None = None
) -> dict[int, Wide]:
    """Return the points of these series in blocks of these runs that arrived in (since, until], by series."""
    groups = {pk // GROUP for pk in ids}
    blocks = Block.objects.filter(run__in=runs, group__in=groups, cursor__gt=since, count__gt=0)
    return blocks_join(blocks.order_by("id"), ids, since, until)


def blocks_join(
    blocks: Iterable[Block], ids: Collection[int] | None, since: int, until: int | None
) -> dict[int, Wide]:
    """Return the points in blocks that arrived in (since, until], by series. ids: series; None: all."""
    wanted = None if ids is None else np.fromiter(ids, np.int64, len(ids))
    pieces = []
    for block in blocks:
        which = np.ones(block.count, bool) if wanted is None else np.isin(unpack_ints(block.series), wanted)
        if which.any():
            points = unpack(block)
            which &= (points.cursors > since) & (True if until is None else points.cursors <= until)
            pieces.append(points.take(which))
    return Wide.join(pieces).by_series() if pieces else {}


_STORED = """
SELECT id, NULL AS series_id, series, attempt, cursor, count, steps, "values", times, cursors FROM metrics_block
WHERE run_id = ANY(%s) AND "group" = ANY(%s) AND cursor > %s AND count > 0
UNION ALL
SELECT id, series_id, NULL, attempt, cursor, count, steps, "values", times, cursors FROM metrics_chunk
WHERE series_id = ANY(%s) AND cursor > %s
"""


def points_arrived(
    runs: Collection[str], ids: Collection[int], since: int = 0, until: int | None = None
) -> dict[int, Points]:
    """Return the points of these series of these runs that arrived in (since, until], in order of arrival; without series that have
    none. One query, so that points that are moved to chunks meanwhile are read once.
    """
    with connection.cursor() as database:
        groups = {pk // GROUP for pk in ids}
        database.execute(_STORED, [list(runs), list(groups), since, list(ids), since])
        rows = sorted(database.fetchall(), key=lambda row: int(row[0]))
    pieces: dict[int, list[Points]] = {}
    recent = []
    for _, series, of_block, *columns in rows:
        if series is None:
            recent.append(Block(series=of_block, **dict(zip(COLUMNS, columns, strict=True))))
        else:
            pieces.setdefault(series, []).append(chunk_points(ChunkRow._make(columns), since, until))
    for series, points in blocks_join(recent, ids, since, until).items():
        pieces.setdefault(series, []).append(points.after(since))
    joined = {series: Points.join(some) for series, some in pieces.items()}
    return {series: points for series, points in joined.items() if len(points.steps)}

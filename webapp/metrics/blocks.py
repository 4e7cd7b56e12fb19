"""The points in stored blocks: some points of many series of a run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import QuerySet

from webapp.metrics.arrays import Floats, Ints, pack_floats, pack_ints, unpack_floats, unpack_ints
from webapp.metrics.chunks import Points, chunks_read, points_gather, points_join
from webapp.metrics.models import Block

GROUP = 1024
"""Number of consecutive ids of series whose points share blocks."""
TRIES = 3
"""Number of reads before a series is returned in which points may occur twice."""


@dataclass(frozen=True)
class Wide:
    """Points of many series in order of arrival: columns of equal length."""

    series: Ints
    steps: Ints
    values: Floats
    times: Floats
    attempts: Ints
    cursors: Ints

    def take(self, indices: Ints) -> "Wide":
        """Return the points at these indices."""
        return Wide(*(column[indices] for column in vars(self).values()))

    def points(self) -> Points:
        """Return them without the series."""
        return Points(self.steps, self.values, self.times, self.attempts)

    def by_series(self) -> dict[int, "Wide"]:
        """Return the points of each series, in the same order."""
        order = np.argsort(self.series, kind="stable")
        names, starts = np.unique(self.series[order], return_index=True)
        pieces = np.split(order, starts[1:])
        return {int(name): self.take(piece) for name, piece in zip(names, pieces, strict=True)}

    def by_attempt(self) -> dict[int, "Wide"]:
        """Return the points of each attempt, in the same order; the attempts in order of arrival."""
        attempts = dict.fromkeys(self.attempts.tolist())
        return {attempt: self.take(np.flatnonzero(self.attempts == attempt)) for attempt in attempts}


def wide_join(pieces: Sequence[Wide]) -> Wide:
    """Concatenate points; at least one piece."""
    return Wide(
        *(np.concatenate(column) for column in zip(*(vars(piece).values() for piece in pieces), strict=True))
    )


def block_unpack(block: Block) -> Wide:
    """Return the points of a block."""
    cursors = unpack_ints(block.cursors) if block.cursors else np.full(block.count, block.cursor)
    steps, values, times = unpack_ints(block.steps), unpack_floats(block.values), unpack_floats(block.times)
    return Wide(unpack_ints(block.series), steps, values, times, np.full(block.count, block.attempt), cursors)


def block_pack(run_id: str, points: Wide, *, merged: bool) -> Block:
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
        summed=merged,
    )


def wide_read(
    blocks: QuerySet[Block], since: int, until: int | None, ids: Collection[int] | None = None
) -> tuple[Wide | None, list[int]]:
    """Return the points of these blocks that arrived in (since, until], and the ids of the blocks. ids: series; None: all."""
    pieces, read = [], []
    wanted = None if ids is None else np.fromiter(ids, np.int64, len(ids))
    for block in blocks.filter(cursor__gt=since, count__gt=0).order_by("id"):
        read.append(block.pk)
        series = unpack_ints(block.series)
        if wanted is not None and not np.isin(series, wanted).any():
            continue
        points = block_unpack(block)
        valid = points.cursors > since
        if until is not None:
            valid &= points.cursors <= until
        if wanted is not None:
            valid &= np.isin(series, wanted)
        pieces.append(points.take(np.flatnonzero(valid)))
    whole = wide_join(pieces) if pieces else None
    return (whole if whole and len(whole.steps) else None), read


def points_arrived(names: Mapping[int, str], since: int, until: int | None) -> dict[str, Points]:
    """Return the points of these series (id -> key) that arrived in (since, until] by key, in order of arrival; without keys that have
    none.

    A merge of blocks (webapp.metrics.wide) can come between the two queries. Then the read is repeated.
    """
    blocks = Block.objects.filter(group__in={pk // GROUP for pk in names})
    for _ in range(TRIES):
        wide, read = wide_read(blocks, since, until, names)
        columns = points_gather(chunks_read(names, since), since, until)
        if not read or Block.objects.filter(pk__in=read).count() == len(read):
            break
    for pk, points in (wide.by_series() if wide else {}).items():
        key = names[pk]
        columns[key] = points_join([columns[key], points.points()]) if key in columns else points.points()
    return columns

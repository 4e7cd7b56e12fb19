"""The outline of a chunk: a few real points and a mean for every LEAF points, from which a long series is drawn without its points.

A leaf is LEAF consecutive points by step. Of each leaf the outline retains the first, the last, the smallest and the largest point, one
NaN, and count, mean, minimum and maximum of the finite values. A series of a million points has 8,000 leaves, so that a chart of
twenty such series reads 3 % of their points; no spike and no NaN is lost (webapp.metrics.selectors works on the retained points).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webapp.metrics.arrays import Floats, Ints, Packed, pack_ints, unpack_ints
from webapp.metrics.buckets import BUCKETS, Buckets

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

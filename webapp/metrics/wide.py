"""Storage of runs with many metrics: points of the metrics beyond the first NARROW go to blocks.

A chunk and a summary for each metric and batch would cost fifty times more than the values. A block holds the points of a batch of up to
GROUP metrics. The task `metrics.compact` later updates the summaries (the last value, the number of points), merges small blocks, and moves
the points to a chunk for each series once there are enough of them.

Names of stored metrics are kept in memory: a batch of a run with many metrics does not ask the database for all of its names.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

import numpy as np
from django.db import connection, transaction

from webapp.metrics.arrays import Floats, Ints, pack_floats, pack_ints
from webapp.metrics.blocks import GROUP, Wide, block_pack, block_unpack, wide_join
from webapp.metrics.models import Block, Chunk, Series
from webapp.metrics.outlines import outlined
from webapp.metrics.summaries import summary_set
from webapp.metrics.valid_summaries import End, is_repeat, summaries_renew
from webapp.runs.lifecycle import run_locked
from webapp.runs.models import Run
from workers.telemetry.events import MetricsEvent

MOST_NAMES = 200_000
"""Maximum number of names of all runs, about 30 MB; the runs that were not used for the longest time are removed."""


class NameCache:
    """Ids of series by run and name; None for narrow ones. Only committed series may be added: an id never changes.

    A run is identified by its id and its time of creation, because a program may create a run with the id of a removed one.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: OrderedDict[tuple[str, datetime], dict[str, int | None]] = OrderedDict()
        self._count = 0

    def ids(self, run: Run, keys: Iterable[str]) -> dict[str, int | None]:
        """Return the ids of those names that are in the cache."""
        with self._lock:
            names = self._runs.get((run.pk, run.created_at))
            if names is None:
                return {}
            self._runs.move_to_end((run.pk, run.created_at))
            return {key: names[key] for key in keys if key in names}

    def add(self, run: Run, ids: dict[str, int | None]) -> None:
        """Add names; removes other runs above MOST_NAMES, and the run itself if it alone has more."""
        with self._lock:
            names = self._runs.setdefault((run.pk, run.created_at), {})
            self._runs.move_to_end((run.pk, run.created_at))
            self._count -= len(names)
            names |= ids
            self._count += len(names)
            while self._count > MOST_NAMES:
                _, removed = self._runs.popitem(last=False)
                self._count -= len(removed)

    @property
    def count(self) -> int:
        """Return the number of names."""
        return self._count


NARROW = 1000
"""Number of metrics of a run whose points go to chunks at once."""
MANY_BLOCKS = 8
"""Number of blocks of a group above which they are merged."""
CHUNKED = 512
"""Mean number of points of a series from which they are moved to chunks."""

# Raw SQL: the ORM makes a parameter of each name, which takes ten times as long.
NAMES = NameCache()
_EXISTING = "SELECT key, id, wide FROM metrics_series WHERE run_id = %s AND key = ANY(%s)"
_INSERT = """
INSERT INTO metrics_series
  (run_id, wide, count, chunk_count, key, last_attempt, last_step, last_value, last_time, first_value, min_value, max_value)
SELECT %s, true, 0, 0, key, attempt, step, value, time, first, low, high
FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[])
  AS new (key, attempt, step, value, time, first, low, high)
RETURNING key, id
"""
_UPDATE = f"""
UPDATE metrics_series AS old SET {summary_set("new")}
FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[])
  AS new (id, count, last_attempt, last_step, last_value, last_time, first_value, min_value, max_value)
WHERE old.id = new.id
"""


@dataclass(frozen=True)
class Split:
    """The metrics of a batch by where their points go."""

    narrow: set[str]
    wide: dict[str, int]
    """Ids of series; negative numbers of those that do not exist yet."""
    beyond: list[str]
    """Names beyond the maximum of the run."""


def keys_split(run: Run, keys: Sequence[str], first: Collection[str], most: int) -> Split:
    """Split the metrics of a batch. first: names that are always narrow; most: maximum number of metrics of the run.

    A run without wide metrics that stays below both limits is not queried.
    """
    count = run.series_count
    if count + len(keys) <= min(NARROW, most):
        return Split(set(keys), {}, [])
    existing = _existing(run, keys)
    fresh = sorted((key for key in keys if key not in existing), key=lambda key: key not in first)
    left = max(0, most - count)
    fresh, beyond = fresh[:left], fresh[left:]
    usual = max(0, NARROW - count, sum(key in first for key in fresh))
    narrow = {key for key, pk in existing.items() if pk is None} | set(fresh[:usual])
    wide = {key: pk for key, pk in existing.items() if pk is not None}
    wide |= {key: -1 - number for number, key in enumerate(fresh[usual:])}
    return Split(narrow, wide, beyond)


def _existing(run: Run, keys: Sequence[str]) -> dict[str, int | None]:
    """Return the ids of the stored ones of these metrics; None for narrow ones."""
    ids = NAMES.ids(run, keys)
    if len(ids) < len(keys):
        with connection.cursor() as database:
            database.execute(_EXISTING, [run.pk, [key for key in keys if key not in ids]])
            stored = {key: pk if wide else None for key, pk, wide in database.fetchall()}
        transaction.on_commit(lambda: NAMES.add(run, stored))
        ids |= stored
    return ids


def wide_store(
    run: Run, attempt: int, cursor: int, events: Sequence[MetricsEvent], ids: dict[str, int]
) -> None:
    """Append the points of these metrics. The caller holds the run's row lock."""
    points = _points(attempt, cursor, events, ids)
    names = [key for key, pk in ids.items() if pk < 0]
    if names:
        points = _inserted(run, names, points)
    order = np.argsort(points.series // GROUP, kind="stable")
    points = points.take(order)
    _, starts = np.unique(points.series // GROUP, return_index=True)
    Block.objects.bulk_create(
        block_pack(run.pk, points.take(piece), merged=False)
        for piece in np.split(np.arange(len(order)), starts[1:])
    )


def blocks_compact(run_id: str, group: int) -> None:
    """Update the summaries of a group's series; merge its blocks if they are many, and move their points to chunks if these are many."""
    with transaction.atomic():
        if run_locked(run_id) is None:
            return
        blocks = list(Block.objects.filter(run_id=run_id, group=group).order_by("id"))
        if fresh := [block for block in blocks if not block.summed and block.count]:
            _summarise(run_id, wide_join([block_unpack(block) for block in fresh]))
            Block.objects.filter(pk__in=[block.pk for block in fresh]).update(summed=True)
        some = [block for block in blocks if block.count]
        if not some:
            return
        points = wide_join([block_unpack(block) for block in some])
        moved = len(points.steps) >= CHUNKED * len(np.unique(points.series))
        if moved:
            _chunks_make(points)
            made = [_moved(run_id, group, int(points.cursors.max()))]
        elif len(some) > MANY_BLOCKS:
            made = [block_pack(run_id, part, merged=True) for part in points.by_attempt().values()]
        else:
            return
        old = blocks if moved else some
        Block.objects.filter(pk__in=[block.pk for block in old]).delete()
        Block.objects.bulk_create(made)


def _moved(run_id: str, group: int, cursor: int) -> Block:
    """Return the empty block of a group whose points up to a cursor are in chunks."""
    nothing = {"series": b"", "steps": b"", "values": b"", "times": b""}
    return Block(run_id=run_id, group=group, attempt=0, cursor=cursor, count=0, summed=True, **nothing)


def _points(attempt: int, cursor: int, events: Sequence[MetricsEvent], ids: dict[str, int]) -> Wide:
    series: list[int] = []
    values: list[float | str] = []
    counts = []
    for event in events:
        before = len(series)
        for key, value in event.values.items():
            if (pk := ids.get(key)) is not None:
                series.append(pk)
                values.append(value)
        counts.append(len(series) - before)
    steps = np.repeat(np.array([event.step for event in events], np.int64), counts)
    times = np.repeat(np.array([event.time for event in events], np.float64), counts)
    # numpy reads the texts NaN, Infinity and -Infinity as numbers.
    numbers = np.array(values, dtype=object).astype(np.float64)
    size = len(series)
    return Wide(
        np.array(series, np.int64), steps, numbers, times, np.full(size, attempt), np.full(size, cursor)
    )


def _inserted(run: Run, names: list[str], points: Wide) -> Wide:
    """Insert the series with negative numbers; returns the points with their ids. The number of points is added later."""
    summaries = Summaries.of(points.take(np.flatnonzero(points.series < 0)))
    named = [names[-1 - number] for number in summaries.series.tolist()]
    with connection.cursor() as database:
        database.execute(_INSERT, [run.pk, named, *summaries.lists()[2:]])
        made = dict(database.fetchall())
    if len(made) >= NARROW:
        transaction.on_commit(_series_analyse)
    run.series_count += len(made)
    run.save(update_fields=["series_count"])
    ids = np.array([made[name] for name in names], np.int64)
    fresh = points.series < 0
    series = points.series.copy()
    series[fresh] = ids[-1 - series[fresh]]
    return Wide(series, *list(vars(points).values())[1:])


def _series_analyse() -> None:
    """Let all connections plan again for the new size of the table.

    Foreign keys are checked with the plan of a connection's first check. The plan for an almost empty table reads the whole table
    for each chunk.
    """
    with connection.cursor() as database:
        database.execute("ANALYZE (SKIP_LOCKED) metrics_series")


def _summarise(run_id: str, points: Wide) -> None:
    summaries = Summaries.of(points)
    rows = Series.objects.filter(pk__in=summaries.series.tolist(), run=run_id)
    before = {
        pk: (key, End(*end)) for pk, key, *end in rows.values_list("pk", "key", "last_attempt", "last_step")
    }
    with connection.cursor() as database:
        database.execute(_UPDATE, list(summaries.lists()))
    if any(end.attempt > 1 for _, end in before.values()) or points.attempts.max() > 1:
        starts = _starts(points)
        repeats = {
            pk: key for pk, (key, end) in before.items() if any(is_repeat(end, new) for new in starts[pk])
        }
        summaries_renew(repeats)


def _starts(points: Wide) -> dict[int, list[End]]:
    """Return attempt and first step of the points of each series, for each attempt."""
    order = np.lexsort((points.steps, points.attempts, points.series))
    pairs = np.stack([points.series[order], points.attempts[order]])
    firsts = order[np.flatnonzero(np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)))]
    starts: dict[int, list[End]] = {}
    for at in firsts.tolist():
        starts.setdefault(int(points.series[at]), []).append(
            End(int(points.attempts[at]), int(points.steps[at]))
        )
    return starts


@dataclass(frozen=True)
class Summaries:
    """Summaries of points by series: the last one has the highest (attempt, step); of equals, it is the latest to arrive."""

    series: Ints
    counts: Ints
    attempts: Ints
    steps: Ints
    values: Floats
    times: Floats
    firsts: Floats
    """Of finite values, as `lows` and `highs`; NaN if there is none."""
    lows: Floats
    highs: Floats

    @classmethod
    def of(cls, points: Wide) -> "Summaries":
        """Summarise at least one point."""
        order = np.lexsort((points.steps, points.attempts, points.series))
        series, counts = np.unique(points.series, return_counts=True)
        last = points.take(order[np.cumsum(counts) - 1])
        finite = points.take(np.flatnonzero(np.isfinite(points.values)))
        firsts, lows, highs = (np.full(len(series), np.nan) for _ in range(3))
        if len(finite.steps):
            arrived = finite.take(np.argsort(finite.series, kind="stable"))
            names, starts = np.unique(arrived.series, return_index=True)
            rows = np.searchsorted(series, names)
            firsts[rows] = arrived.values[starts]
            lows[rows] = np.minimum.reduceat(arrived.values, starts)
            highs[rows] = np.maximum.reduceat(arrived.values, starts)
        return cls(series, counts, last.attempts, last.steps, last.values, last.times, firsts, lows, highs)

    def lists(self) -> list[list[int] | list[float | None]]:
        """Return the columns as lists; None for a missing value."""
        numbers: list[list[int] | list[float | None]] = [
            column.tolist() for column in list(vars(self).values())[:6]
        ]
        return numbers + [
            [None if value != value else value for value in column.tolist()]
            for column in (self.firsts, self.lows, self.highs)
        ]


def _chunks_make(points: Wide) -> None:
    """Move points to one chunk for each series and attempt."""
    made: list[Chunk] = []
    counts: dict[int, int] = {}
    for pk, of_series in points.by_series().items():
        parts = of_series.by_attempt()
        made += [_chunk(pk, attempt, some) for attempt, some in parts.items()]
        counts[pk] = len(parts)
    Chunk.objects.bulk_create(made)
    with connection.cursor() as database:
        database.execute(
            "UPDATE metrics_series SET chunk_count = chunk_count + made FROM unnest(%s::bigint[], %s::int[]) AS new (pk, made) "
            "WHERE id = pk",
            [list(counts), list(counts.values())],
        )


def _chunk(series: int, attempt: int, points: Wide) -> Chunk:
    return Chunk(
        series_id=series,
        attempt=attempt,
        cursor=int(points.cursors.max()),
        count=len(points.steps),
        first_step=int(points.steps.min()),
        last_step=int(points.steps.max()),
        steps=pack_ints(points.steps),
        values=pack_floats(points.values),
        times=pack_floats(points.times),
        cursors=pack_ints(points.cursors),
        outline=outlined(points.steps, points.values, points.times),
    )

"""Storage of points: one chunk per series and batch, merged later; updates summaries and headlines.

Metrics of a run beyond the first NARROW go to blocks: a chunk and a summary for each metric and batch would cost fifty times more than
the values. A block holds the points of a batch of up to GROUP metrics. The task `metrics.compact` later updates the summaries (the last
value, the number of points), merges small blocks, and moves the points to a chunk for each series once there are enough of them. Names of
these metrics are kept in memory: a batch of a run with many metrics does not ask the database for all of its names.

First value, minimum and maximum of a resumed run are those of its valid points: points that a later attempt repeats leave the summary. Most
batches only add points; the others are recognised here, and the summaries of their series are computed from all points.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from math import isfinite
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from django.conf import settings
from django.db import connection, transaction

from webapp.common.task_queue import enqueue
from webapp.metrics.arrays import Floats, Ints, pack_floats, pack_ints, read, unpack_floats, unpack_ints
from webapp.metrics.headline import HEADLINE, headline_update
from webapp.metrics.models import Block, Chunk, Series
from webapp.metrics.points import (
    GROUP,
    Wide,
    block_pack,
    block_unpack,
    outlined,
    points_arrived,
    superseded,
)
from webapp.runs.lifecycle import OF_STATE, run_locked
from webapp.runs.logs import server_says
from webapp.runs.models import ENDED_STATES, Run
from workers.telemetry.events import MetricsEvent


def summary_set(new: str) -> str:
    """Return the assignments of an UPDATE of the series `old` by the row `new`, whose columns have the same names.

    The last point of a series is the one with the highest (attempt, step); of equals, the latest to arrive.
    """
    return f"""
  count = old.count + {new}.count,
  first_value = COALESCE(old.first_value, {new}.first_value),
  min_value = LEAST(old.min_value, {new}.min_value),
  max_value = GREATEST(old.max_value, {new}.max_value),
  (last_attempt, last_step, last_value, last_time) = (
    SELECT CASE WHEN newer THEN {new}.last_attempt ELSE old.last_attempt END,
           CASE WHEN newer THEN {new}.last_step ELSE old.last_step END,
           CASE WHEN newer THEN {new}.last_value ELSE old.last_value END,
           CASE WHEN newer THEN {new}.last_time ELSE old.last_time END
    FROM (SELECT ({new}.last_attempt, {new}.last_step) >= (old.last_attempt, old.last_step) AS newer) AS compared)
"""


AT_ONCE = 200
"""Series whose points are in memory at the same time."""


class End(NamedTuple):
    """Attempt and step of the last point of a series."""

    attempt: int
    step: int


def ends_of(run: Run, keys: Iterable[str]) -> dict[str, End]:
    """Return the ends of the stored ones of these series."""
    rows = Series.objects.filter(run=run, key__in=list(keys)).values_list("key", "last_attempt", "last_step")
    return {key: End(attempt, step) for key, attempt, step in rows}


def is_repeat(end: End, new: End) -> bool:
    """Whether points of which `new` is the first may repeat points of a series, or be repeated by them."""
    return max(end.attempt, new.attempt) > 1 and (end.attempt != new.attempt or new.step <= end.step)


def summaries_renew(names: Mapping[int, str]) -> dict[str, float | None]:
    """Compute the summaries of these series (id -> key) from their valid points; returns the first values by key."""
    firsts: dict[str, float | None] = {}
    ids = list(names)
    for start in range(0, len(ids), AT_ONCE):
        some = {pk: names[pk] for pk in ids[start : start + AT_ONCE]}
        renewed = []
        columns = points_arrived(some, 0, None)
        for pk, key in some.items():
            if key not in columns:
                continue
            points = columns[key]
            values = points.values[
                np.isfinite(points.values) & ~superseded(points.steps, points.attempts)
            ].tolist()
            first, low, high = (values[0], min(values), max(values)) if values else (None, None, None)
            firsts[key] = first
            renewed.append(Series(pk=pk, first_value=first, min_value=low, max_value=high))
        Series.objects.bulk_update(renewed, ["first_value", "min_value", "max_value"])
    return firsts


COMPACT_RUN = "metrics.compact_run"
ENDED_EVENTS = {OF_STATE[state] for state in ENDED_STATES}
MANY_CHUNKS = 200
"""Number of chunks above which a series is merged."""
LARGEST_CHUNK = 1 << 16
"""Points per chunk; a chunk of that size is not merged further."""


# Raw SQL because the ORM takes five times as long for the fifty rows of a batch. The last point of a series is the
# one with the highest (attempt, step); of equals, the latest to arrive.
_STORE = f"""
WITH new AS (
  SELECT * FROM unnest(
    %s::text[], %s::bigint[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[],
    %s::bigint[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[])
    AS column_of (key, count, step, value, time, first, low, high, first_step, steps, vals, times, outline)),
stored AS (
  INSERT INTO metrics_series AS old
    (run_id, last_attempt, key, count, last_step, last_value, last_time, first_value, min_value, max_value, chunk_count)
  SELECT %s, %s, key, count, step, value, time, first, low, high, 1 FROM new
  ON CONFLICT (run_id, key) DO UPDATE SET chunk_count = old.chunk_count + 1, {summary_set("excluded")}
  RETURNING id, key, last_value, first_value, last_attempt, xmax = 0 AS is_new),
chunks AS (
  INSERT INTO metrics_chunk (attempt, cursor, series_id, count, first_step, last_step, steps, values, times, outline)
  SELECT %s, %s, id, count, first_step, step, steps, vals, times, outline FROM stored JOIN new USING (key))
SELECT * FROM stored
"""


@dataclass
class Column:
    """Points of one key in order of arrival."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def last(self) -> tuple[int, float, float]:
        """Return step, value and time of the point with the highest step; of equals, the latest to arrive."""
        step = max(self.steps)
        index = len(self.steps) - 1 - self.steps[::-1].index(step)
        return step, self.values[index], self.times[index]


def points_store(run: Run, attempt: int, cursor: int, events: list[MetricsEvent]) -> None:
    """Append the points of a batch. The caller holds the run's row lock."""
    keys = list(dict.fromkeys(key for event in events for key in event.values))
    split = keys_split(run, keys, HEADLINE, settings.METRICS_PER_RUN)
    if split.beyond:
        _drop(run, attempt, events, split.beyond)
    columns = _columns(events, split.narrow if len(split.narrow) < len(keys) else None)
    if columns:
        before = ends_of(run, columns) if attempt > 1 else {}
        stored = _columns_store(run, attempt, cursor, columns)
        ends = {key: (last, first) for key, (_, last, first, _) in stored.items()}
        for key, first in _repeats_renew(attempt, columns, before, stored).items():
            ends[key] = (ends[key][0], first)
        headline_update(run, columns, ends)
    if split.wide:
        wide_store(run, attempt, cursor, events, split.wide)


def series_compact(series_id: int) -> int:
    """Merge the small chunks of a series, attempt by attempt; returns by how many the number of rows decreased."""
    owner = Series.objects.values_list("run_id", flat=True).filter(pk=series_id).first()
    if owner is None:
        return 0
    with transaction.atomic():
        run_locked(owner)
        series = Series.objects.filter(pk=series_id).first()
        if series is None:
            return 0
        small = list(series.chunks.filter(count__lt=LARGEST_CHUNK).order_by("id"))
        groups = [group for group in _groups(small) if len(group) > 1]
        Chunk.objects.bulk_create(
            _chunk(series_id, group[0].attempt, Wide.join(list(map(_chunk_unpack, group))))
            for group in groups
        )
        Chunk.objects.filter(pk__in=[chunk.pk for group in groups for chunk in group]).delete()
        before, series.chunk_count = series.chunk_count, series.chunks.count()
        series.save(update_fields=["chunk_count"])
        return before - series.chunk_count


def run_compact(run_id: str) -> int:
    """Merge the small chunks of all series of a run; returns by how many the number of rows decreased."""
    several = Series.objects.filter(run=run_id, chunk_count__gt=1)
    return sum(series_compact(pk) for pk in list(several.values_list("pk", flat=True)))


def ended_compact(run: Run, event: str, **_: Any) -> None:
    """Receiver of `run_event`: merge the chunks of an ended run after commit, because a chart of many runs reads them all."""
    if event in ENDED_EVENTS:
        transaction.on_commit(partial(enqueue, COMPACT_RUN, run.pk))


def _columns(events: Iterable[MetricsEvent], some: Collection[str] | None) -> dict[str, Column]:
    """Return the points of these keys (None: of all)."""
    columns: dict[str, Column] = {}
    for event in events:
        for key, value in event.values.items():
            if some is not None and key not in some:
                continue
            column = columns.get(key)
            if column is None:
                column = columns[key] = Column()
            column.steps.append(event.step)
            column.values.append(read(value))
            column.times.append(event.time)
    return columns


def _drop(run: Run, attempt: int, events: Iterable[MetricsEvent], beyond: list[str]) -> None:
    """Count and log the values under names beyond the maximum of the run, which are not stored."""
    if not run.values_dropped:
        names = ", ".join(key[:60] for key in beyond[:5])
        most = f"This run has {settings.METRICS_PER_RUN} metrics, the maximum (TROUPE_METRICS_PER_RUN)."
        words = f"{most} Values under further names are not stored: {names} ..."
        server_says(
            run, attempt, f"{words} The run's `values_dropped` in the API counts them. Log fewer names."
        )
    left_out = set(beyond)
    run.values_dropped += sum(key in left_out for event in events for key in event.values)
    run.save(update_fields=["values_dropped"])


def _columns_store(
    run: Run, attempt: int, cursor: int, columns: dict[str, Column]
) -> dict[str, tuple[int, float, float | None, int]]:
    """Add a chunk to each of these series, and update their summaries and their number in the run.

    Returns id, last value, first value and last attempt by key.
    """
    some = columns.values()
    arrays: list[Iterable[Any]] = [
        [len(column.steps) for column in some],
        *zip(*(column.last() for column in some), strict=True),
        *zip(*(_range(column.values) for column in some), strict=True),
        [min(column.steps) for column in some],
        [pack_ints(column.steps) for column in some],
        [pack_floats(column.values) for column in some],
        [pack_floats(column.times) for column in some],
        [outlined(column.steps, column.values, column.times) for column in some],
    ]
    with connection.cursor() as database:
        database.execute(_STORE, [list(columns), *map(_literal, arrays), run.pk, attempt, attempt, cursor])
        rows = database.fetchall()
    if fresh := sum(inserted for *_, inserted in rows):
        run.series_count += fresh
        run.save(update_fields=["series_count"])
    return {key: (pk, last, first, newest) for pk, key, last, first, newest, _ in rows}


def _literal(items: Iterable[float | bytes | None]) -> str:
    """Return an array in Postgres' notation. psycopg converts lists item by item, which takes ten times as long."""
    texts = (
        "NULL" if item is None else f'"\\\\x{item.hex()}"' if isinstance(item, bytes) else repr(item)
        for item in items
    )
    return f"{{{','.join(texts)}}}"


def _repeats_renew(
    attempt: int,
    columns: dict[str, Column],
    before: dict[str, End],
    stored: dict[str, tuple[int, float, float | None, int]],
) -> dict[str, float | None]:
    """Renew the summaries of series with repeated points; returns their first values. before: ends, for attempts after the first."""
    repeats = [key for key, end in before.items() if is_repeat(end, End(attempt, min(columns[key].steps)))]
    repeats += [key for key, (*_, newest) in stored.items() if newest > attempt == 1]
    return summaries_renew({stored[key][0]: key for key in repeats}) if repeats else {}


def _range(values: list[float]) -> list[float | None]:
    """Return the first, minimum and maximum of the finite values."""
    finite = [value for value in values if isfinite(value)]
    return [finite[0], min(finite), max(finite)] if finite else [None, None, None]


def _groups(chunks: list[Chunk]) -> list[list[Chunk]]:
    """Group the chunks of each attempt, in order of arrival, into about LARGEST_CHUNK points each."""
    groups: dict[int, list[list[Chunk]]] = {}
    for chunk in chunks:
        of_attempt = groups.setdefault(chunk.attempt, [[]])
        if sum(other.count for other in of_attempt[-1]) >= LARGEST_CHUNK:
            of_attempt.append([])
        of_attempt[-1].append(chunk)
    return [group for of_attempt in groups.values() for group in of_attempt]


def _chunk_unpack(chunk: Chunk) -> Wide:
    cursors = unpack_ints(chunk.cursors) if chunk.cursors else np.full(chunk.count, chunk.cursor)
    steps, values, times = unpack_ints(chunk.steps), unpack_floats(chunk.values), unpack_floats(chunk.times)
    attempts, series = np.full(chunk.count, chunk.attempt), np.full(chunk.count, chunk.series_id)
    return Wide(steps, values, times, attempts, series, cursors)


def _chunk(series: int, attempt: int, points: Wide) -> Chunk:
    """Return one chunk of all these points, with the cursor of every point."""
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
_SERIES_INSERT = """
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
            _summarise(run_id, Wide.join([block_unpack(block) for block in fresh]))
            Block.objects.filter(pk__in=[block.pk for block in fresh]).update(summed=True)
        some = [block for block in blocks if block.count]
        if not some:
            return
        points = Wide.join([block_unpack(block) for block in some])
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
        steps, numbers, times, np.full(size, attempt), np.array(series, np.int64), np.full(size, cursor)
    )


def _inserted(run: Run, names: list[str], points: Wide) -> Wide:
    """Insert the series with negative numbers; returns the points with their ids. The number of points is added later."""
    summaries = Summaries.of(points.take(np.flatnonzero(points.series < 0)))
    named = [names[-1 - number] for number in summaries.series.tolist()]
    with connection.cursor() as database:
        database.execute(_SERIES_INSERT, [run.pk, named, *summaries.lists()[2:]])
        made = dict(database.fetchall())
    if len(made) >= NARROW:
        transaction.on_commit(_series_analyse)
    run.series_count += len(made)
    run.save(update_fields=["series_count"])
    ids = np.array([made[name] for name in names], np.int64)
    fresh = points.series < 0
    series = points.series.copy()
    series[fresh] = ids[-1 - series[fresh]]
    return replace(points, series=series)


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

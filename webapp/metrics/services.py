"""Storage of points: a batch goes to blocks, one for each GROUP of series, and later to chunks, one for each series.

Both are needed. A row for each metric and batch would cost fifty times more than the values, so that what arrives is stored by batch.
A chart reads a few of many series, whole, and a long one without its points, so that what is old is stored by series, with outlines. The
task `metrics.compact` merges small blocks, and moves the points of a group to chunks once there are enough of them, or the run has ended.

The summaries of series (the last value, the number of points) are updated with each batch; those of a run's metrics beyond the first
NARROW by the task. Names of metrics are kept in memory: a batch of a run with many metrics does not ask the database for all of its names.

First value, minimum and maximum of a resumed run are those of its valid points: points that a later attempt repeats leave the summary. Most
batches only add points; the others are recognised here, and the summaries of their series are computed from all points.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Q

from webapp.common.task_queue import enqueue
from webapp.metrics.arrays import Floats, Ints, pack_floats, pack_ints
from webapp.metrics.headline import HEADLINE, headline_update
from webapp.metrics.models import Block, Chunk, Series
from webapp.metrics.points import (
    GROUP,
    Wide,
    block_pack,
    outlined,
    points_arrived,
    superseded,
    unpack,
)
from webapp.runs.lifecycle import OF_STATE, run_locked
from webapp.runs.logs import server_says
from webapp.runs.models import ENDED_STATES, Run
from workers.telemetry.events import MetricsEvent

AT_ONCE = 200
"""Series whose points are in memory at the same time."""
COMPACT_RUN = "metrics.compact_run"
ENDED_EVENTS = {OF_STATE[state] for state in ENDED_STATES}
NARROW = 1000
"""Number of metrics of a run whose summaries are updated at once."""
MANY_BLOCKS = 8
"""Number of blocks of a group above which they are merged."""
CHUNKED = 512
"""Mean number of points of a series from which they are moved to chunks."""
MOST_MOVED = 1 << 20
"""Number of points from which the oldest blocks of a group are moved before the others. Merged blocks, which are the first, have fewer."""
MANY_CHUNKS = 200
"""Number of chunks above which a series is merged."""
LARGEST_CHUNK = 1 << 16
"""Points per chunk; a chunk of that size is not merged further."""
MOST_NAMES = 200_000
"""Maximum number of names of all runs, about 40 MB; the runs that were not used for the longest time are removed."""

# Raw SQL: the ORM makes a parameter of each name, which takes ten times as long.
_EXISTING = "SELECT key, id, wide FROM metrics_series WHERE run_id = %s AND key = ANY(%s)"
_SERIES_INSERT = """
INSERT INTO metrics_series
  (run_id, count, chunk_count, key, wide, last_attempt, last_step, last_value, last_time, first_value, min_value, max_value)
SELECT %s, 0, 0, key, wide, attempt, step, value, time, first, low, high
FROM unnest(%s::text[], %s::bool[], %s::bigint[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[])
  AS new (key, wide, attempt, step, value, time, first, low, high)
RETURNING key, id
"""
# The last point of a series is the one with the highest (attempt, step, time); of equals, the latest to arrive.
_UPDATE = """
UPDATE metrics_series AS old SET
  count = old.count + new.count,
  first_value = COALESCE(old.first_value, new.first_value),
  min_value = LEAST(old.min_value, new.min_value),
  max_value = GREATEST(old.max_value, new.max_value),
  (last_attempt, last_step, last_value, last_time) = (
    SELECT CASE WHEN newer THEN new.last_attempt ELSE old.last_attempt END,
           CASE WHEN newer THEN new.last_step ELSE old.last_step END,
           CASE WHEN newer THEN new.last_value ELSE old.last_value END,
           CASE WHEN newer THEN new.last_time ELSE old.last_time END
    FROM (SELECT (new.last_attempt, new.last_step, new.last_time) >= (old.last_attempt, old.last_step, old.last_time) AS newer)
      AS compared)
FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[])
  AS new (id, count, last_attempt, last_step, last_value, last_time, first_value, min_value, max_value)
WHERE old.id = new.id
RETURNING old.id, old.last_attempt, old.last_value, old.first_value
"""


class End(NamedTuple):
    """Attempt and step of the last point of a series."""

    attempt: int
    step: int


def is_repeat(end: End, new: End) -> bool:
    """Whether points of which `new` is the first may repeat points of a series, or be repeated by them."""
    return max(end.attempt, new.attempt) > 1 and (end.attempt != new.attempt or new.step <= end.step)


def points_store(run: Run, attempt: int, cursor: int, events: Sequence[MetricsEvent]) -> None:
    """Append the points of a batch. The caller holds the run's row lock."""
    keys = list(dict.fromkeys(key for event in events for key in event.values))
    series, beyond = _series_of(run, keys, settings.METRICS_PER_RUN)
    if beyond:
        _drop(run, attempt, events, beyond)
    points = _points(attempt, cursor, events, series)
    before = _ends(pk for pk, wide in series.values() if not wide) if attempt > 1 else {}
    fresh = [key for key, (pk, _) in series.items() if pk < 0]
    if fresh:
        points = _inserted(run, fresh, series, points)
    wide = np.isin(points.series, [pk for pk, wide in series.values() if wide])
    narrow = points.take(~wide)
    of_wide = [block_pack(run.pk, some, summed=False) for some in points.take(wide).by_group()]
    Block.objects.bulk_create(of_wide + [block_pack(run.pk, some, summed=True) for some in narrow.by_group()])
    if not len(narrow.steps):
        return
    ends = _summarise(run.pk, narrow, before)
    names = {series[key][0]: key for key in HEADLINE if key in series}
    some = narrow.take(np.isin(narrow.series, list(names))).by_series()
    headline_update(run, {names[pk]: (own, *ends[pk]) for pk, own in some.items()})


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
            _chunk(series_id, group[0].attempt, Wide.join(list(map(unpack, group)))) for group in groups
        )
        Chunk.objects.filter(pk__in=[chunk.pk for group in groups for chunk in group]).delete()
        before, series.chunk_count = series.chunk_count, series.chunks.count()
        series.save(update_fields=["chunk_count"])
        return before - series.chunk_count


def run_compact(run_id: str) -> int:
    """Move the points of an ended run to chunks, except for groups of only wide series, and merge chunks; returns by how many the
    number of rows decreased.
    """
    narrow = Series.objects.filter(run=run_id, wide=False).values_list("pk", flat=True)
    moved = sum(blocks_compact(run_id, group, ended=True) for group in {pk // GROUP for pk in narrow})
    several = Series.objects.filter(run=run_id, chunk_count__gt=1)
    return moved + sum(series_compact(pk) for pk in list(several.values_list("pk", flat=True)))


def ended_compact(run: Run, event: str, **_: Any) -> None:
    """Receiver of `run_event`: merge the chunks of an ended run after commit, because a chart of many runs reads them all."""
    if event in ENDED_EVENTS:
        transaction.on_commit(partial(enqueue, COMPACT_RUN, run.pk))


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


def _groups(chunks: list[Chunk]) -> list[list[Chunk]]:
    """Group the chunks of each attempt, in order of arrival, into about LARGEST_CHUNK points each."""
    groups: dict[int, list[list[Chunk]]] = {}
    for chunk in chunks:
        of_attempt = groups.setdefault(chunk.attempt, [[]])
        if sum(other.count for other in of_attempt[-1]) >= LARGEST_CHUNK:
            of_attempt.append([])
        of_attempt[-1].append(chunk)
    return [group for of_attempt in groups.values() for group in of_attempt]


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


Named = tuple[int, bool]
"""Id of a series, and whether it is wide."""


class NameCache:
    """Series by run and name. Only committed ones may be added: an id never changes.

    A run is identified by its id and its time of creation, because a program may create a run with the id of a removed one.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: OrderedDict[tuple[str, datetime], dict[str, Named]] = OrderedDict()
        self._count = 0

    def series(self, run: Run, keys: Iterable[str]) -> dict[str, Named]:
        """Return those that are in the cache."""
        with self._lock:
            names = self._runs.get((run.pk, run.created_at))
            if names is None:
                return {}
            self._runs.move_to_end((run.pk, run.created_at))
            return {key: names[key] for key in keys if key in names}

    def add(self, run: Run, series: dict[str, Named]) -> None:
        """Add series; removes other runs above MOST_NAMES, and the run itself if it alone has more."""
        with self._lock:
            names = self._runs.setdefault((run.pk, run.created_at), {})
            self._runs.move_to_end((run.pk, run.created_at))
            self._count -= len(names)
            names |= series
            self._count += len(names)
            while self._count > MOST_NAMES:
                _, removed = self._runs.popitem(last=False)
                self._count -= len(removed)

    @property
    def count(self) -> int:
        """Return the number of names."""
        return self._count


NAMES = NameCache()


def _series_of(run: Run, keys: Sequence[str], most: int) -> tuple[dict[str, Named], list[str]]:
    """Return the series of these metrics, with negative ids of those that do not exist yet, and the names beyond the maximum.

    most: maximum number of metrics of the run. The metrics that tables of runs show come first, and are never wide.
    """
    series = _existing(run, keys)
    fresh = sorted((key for key in keys if key not in series), key=lambda key: key not in HEADLINE)
    left = max(0, most - run.series_count)
    fresh, beyond = fresh[:left], fresh[left:]
    narrow = max(0, NARROW - run.series_count, sum(key in HEADLINE for key in fresh))
    series |= {key: (number - len(fresh), number >= narrow) for number, key in enumerate(fresh)}
    return series, beyond


def _existing(run: Run, keys: Sequence[str]) -> dict[str, Named]:
    series = NAMES.series(run, keys)
    if len(series) < len(keys):
        with connection.cursor() as database:
            database.execute(_EXISTING, [run.pk, [key for key in keys if key not in series]])
            stored = {key: (pk, wide) for key, pk, wide in database.fetchall()}
        transaction.on_commit(lambda: NAMES.add(run, stored))
        series |= stored
    return series


def _ends(ids: Iterable[int]) -> dict[int, End]:
    """Return the ends of these series."""
    rows = Series.objects.filter(pk__in=list(ids)).values_list("pk", "last_attempt", "last_step")
    return {pk: End(attempt, step) for pk, attempt, step in rows}


def blocks_unfinished(most: int) -> list[tuple[str, int]]:
    """Return run and group, at most `most`, of blocks that are in no summary, or that are many."""
    unmerged = Count("pk", filter=Q(cursors=None, count__gt=0))
    groups = Block.objects.values_list("run_id", "group").annotate(
        unmerged=unmerged, fresh=Count("pk", filter=Q(summed=False))
    )
    some = groups.filter(Q(fresh__gt=0) | Q(unmerged__gt=MANY_BLOCKS))[:most]
    return [(run_id, group) for run_id, group, *_ in some]


def blocks_compact(run_id: str, group: int, *, ended: bool = False) -> int:
    """Update the summaries of a group's series; merge its blocks if they are many, and move their points to chunks if these are many,
    or the run has ended. Returns by how many the number of blocks decreased.
    """
    with transaction.atomic():
        if run_locked(run_id) is None:
            return 0
        stored = Block.objects.filter(run_id=run_id, group=group).order_by("id")
        sizes = dict(stored.values_list("pk", "count"))
        earlier = accumulate(sizes.values(), initial=0)
        first = [pk for pk, points in zip(sizes, earlier, strict=False) if points < MOST_MOVED]
        rest = len(first) < len(sizes)
        blocks = list(stored.filter(pk__in=first))
        if fresh := [block for block in blocks if not block.summed]:
            points = Wide.join(list(map(unpack, fresh)))
            _summarise(run_id, points, _ends(np.unique(points.series).tolist()))
            Block.objects.filter(pk__in=[block.pk for block in fresh]).update(summed=True)
        some = [block for block in blocks if block.count]
        if not some:
            return 0
        points = Wide.join(list(map(unpack, some)))
        if ended or rest or len(points.steps) >= CHUNKED * len(np.unique(points.series)):
            _chunks_make(points)
            old, made = blocks, [_moved(run_id, group, int(points.cursors.max()))]
        elif len(some) > MANY_BLOCKS:
            parts = points.by_attempt().values()
            old, made = some, [block_pack(run_id, part, summed=True, merged=True) for part in parts]
        else:
            return 0
        Block.objects.filter(pk__in=[block.pk for block in old]).delete()
        Block.objects.bulk_create(made)
    return len(old) - len(made) + (blocks_compact(run_id, group, ended=ended) if rest else 0)


def _moved(run_id: str, group: int, cursor: int) -> Block:
    """Return the empty block of a group whose points up to a cursor are in chunks."""
    nothing = {"series": b"", "steps": b"", "values": b"", "times": b""}
    return Block(run_id=run_id, group=group, attempt=0, cursor=cursor, count=0, summed=True, **nothing)


def _points(attempt: int, cursor: int, events: Sequence[MetricsEvent], known: dict[str, Named]) -> Wide:
    series: list[int] = []
    values: list[float | str] = []
    counts = []
    for event in events:
        before = len(series)
        for key, value in event.values.items():
            if key in known:
                series.append(known[key][0])
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


def _inserted(run: Run, fresh: Sequence[str], series: dict[str, Named], points: Wide) -> Wide:
    """Insert the series with negative ids, and change their ids in `series`; returns the points with them. The number of points is
    added later.
    """
    summaries = Summaries.of(points.take(np.flatnonzero(points.series < 0)))
    wide = [series[key][1] for key in fresh]
    with connection.cursor() as database:
        database.execute(_SERIES_INSERT, [run.pk, list(fresh), wide, *summaries.lists()[2:]])
        made = dict(database.fetchall())
    if len(made) >= NARROW:
        transaction.on_commit(_series_analyse)
    run.series_count += len(made)
    run.save(update_fields=["series_count"])
    stored = {key: (made[key], series[key][1]) for key in fresh}
    transaction.on_commit(lambda: NAMES.add(run, stored))
    series |= stored
    ids = points.series.copy()
    ids[ids < 0] = np.array([made[key] for key in fresh], np.int64)[ids[ids < 0]]
    return replace(points, series=ids)


def _series_analyse() -> None:
    """Let all connections plan again for the new size of the table.

    Foreign keys are checked with the plan of a connection's first check. The plan for an almost empty table reads the whole table
    for each chunk.
    """
    with connection.cursor() as database:
        database.execute("ANALYZE (SKIP_LOCKED) metrics_series")


def _summarise(run_id: str, points: Wide, before: dict[int, End]) -> dict[int, tuple[float, float | None]]:
    """Update the summaries of series by new points; returns their last value and the first finite one. before: the ends of series, which
    are needed for attempts after the first.
    """
    with connection.cursor() as database:
        database.execute(_UPDATE, list(Summaries.of(points).lists()))
        rows = database.fetchall()
    ends = {pk: (last, first) for pk, _, last, first in rows}
    if points.attempts.max() == 1:
        again = [pk for pk, newest, *_ in rows if newest > 1]
    else:
        starts = _starts(points)
        again = [pk for pk, end in before.items() if any(is_repeat(end, new) for new in starts.get(pk, ()))]
    return ends | {pk: (ends[pk][0], first) for pk, first in _summaries_renew(run_id, again).items()}


def _summaries_renew(run_id: str, ids: Sequence[int]) -> dict[int, float | None]:
    """Compute the summaries of these series from their valid points; returns the first values."""
    firsts: dict[int, float | None] = {}
    for start in range(0, len(ids), AT_ONCE):
        renewed = []
        for pk, points in points_arrived([run_id], ids[start : start + AT_ONCE]).items():
            valid = np.isfinite(points.values) & ~superseded(points.steps, points.attempts)
            values = points.values[valid].tolist()
            first, low, high = (values[0], min(values), max(values)) if values else (None, None, None)
            firsts[pk] = first
            renewed.append(Series(pk=pk, first_value=first, min_value=low, max_value=high))
        Series.objects.bulk_update(renewed, ["first_value", "min_value", "max_value"])
    return firsts


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
    """Summaries of points by series: the last one has the highest (attempt, step, time); of equals, it is the latest to arrive."""

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
        order = np.lexsort((points.times, points.steps, points.attempts, points.series))
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
    """Move points to chunks of one series and attempt."""
    made: list[Chunk] = []
    counts: dict[int, int] = {}
    for pk, of_series in points.by_series().items():
        parts = [
            own.take(np.arange(first, min(first + LARGEST_CHUNK, len(own.steps))))
            for own in of_series.by_attempt().values()
            for first in range(0, len(own.steps), LARGEST_CHUNK)
        ]
        made += [_chunk(pk, int(part.attempts[0]), part) for part in parts]
        counts[pk] = len(parts)
    Chunk.objects.bulk_create(made)
    with connection.cursor() as database:
        database.execute(
            "UPDATE metrics_series SET chunk_count = chunk_count + made FROM unnest(%s::bigint[], %s::int[]) AS new (pk, made) "
            "WHERE id = pk",
            [list(counts), list(counts.values())],
        )

"""Storage of points: one chunk per series and batch, merged later; updates summaries and headlines."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
from django.conf import settings
from django.db import connection, transaction

from webapp.common.task_queue import enqueue
from webapp.metrics.arrays import pack_floats, pack_ints, read, unpack_floats, unpack_ints
from webapp.metrics.headline import HEADLINE, headline_update
from webapp.metrics.models import Chunk, Series
from webapp.metrics.outlines import outlined
from webapp.metrics.summaries import summary_set
from webapp.metrics.valid_summaries import End, ends_of, is_repeat, summaries_renew
from webapp.metrics.wide import keys_split, wide_store
from webapp.runs.events import OF_STATE
from webapp.runs.lifecycle import run_locked
from webapp.runs.logs import server_says
from webapp.runs.models import ENDED_STATES, Run
from workers.telemetry.events import MetricsEvent

COMPACT_RUN = "metrics.compact_run"
ENDED_EVENTS = {OF_STATE[state] for state in ENDED_STATES}
MANY_CHUNKS = 200
"""Number of chunks above which a series is merged."""
LARGEST_CHUNK = 1 << 16
"""Points per chunk; a chunk of that size is not merged further."""


# Raw SQL because the ORM takes five times as long for the fifty rows of a batch. The last point of a series is the
# one with the highest (attempt, step); of equals, the latest to arrive.
_UPSERT = f"""
INSERT INTO metrics_series AS old
  (run_id, last_attempt, key, count, last_step, last_value, last_time, first_value, min_value, max_value, chunk_count)
SELECT %s, %s, key, count, step, value, time, first, low, high, 1
FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[])
  AS new (key, count, step, value, time, first, low, high)
ON CONFLICT (run_id, key) DO UPDATE SET
  chunk_count = old.chunk_count + 1, {summary_set("excluded")}
RETURNING id, key, last_value, first_value, last_attempt, xmax = 0
"""
_INSERT = """
INSERT INTO metrics_chunk (attempt, cursor, series_id, count, first_step, last_step, steps, values, times, outline)
SELECT %s, %s, series, count, first_step, last_step, steps, vals, times, outline
FROM unnest(%s::bigint[], %s::int[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[])
  AS new (series, count, first_step, last_step, steps, vals, times, outline)
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
        stored = _series_update(run, attempt, columns)
        _chunks_insert([stored[key][0] for key in columns], attempt, cursor, list(columns.values()))
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
        Chunk.objects.bulk_create([_merged(group) for group in groups])
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


def _series_update(
    run: Run, attempt: int, columns: dict[str, Column]
) -> dict[str, tuple[int, float, float | None, int]]:
    """Update the summaries of these series and the number of the run's; returns id, last value, first value and last attempt by
    key.
    """
    lasts = [column.last() for column in columns.values()]
    steps, values, times = ([last[column] for last in lasts] for column in range(3))
    counts = [len(column.steps) for column in columns.values()]
    ranges = [_range(column.values) for column in columns.values()]
    firsts, lows, highs = ([bounds[column] for bounds in ranges] for column in range(3))
    with connection.cursor() as cursor:
        arrays: list[list[Any]] = [list(columns), counts, steps, values, times, firsts, lows, highs]
        cursor.execute(_UPSERT, [run.pk, attempt, *arrays])
        rows = cursor.fetchall()
    if fresh := sum(inserted for *_, inserted in rows):
        run.series_count += fresh
        run.save(update_fields=["series_count"])
    return {key: (pk, last, first, newest) for pk, key, last, first, newest, _ in rows}


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


def _chunks_insert(series: list[int], attempt: int, cursor: int, columns: list[Column]) -> None:
    with connection.cursor() as database:
        database.execute(
            _INSERT,
            [
                attempt,
                cursor,
                series,
                [len(column.steps) for column in columns],
                [min(column.steps) for column in columns],
                [max(column.steps) for column in columns],
                [pack_ints(column.steps) for column in columns],
                [pack_floats(column.values) for column in columns],
                [pack_floats(column.times) for column in columns],
                [outlined(column.steps, column.values, column.times) for column in columns],
            ],
        )


def _groups(chunks: list[Chunk]) -> list[list[Chunk]]:
    """Group the chunks of each attempt, in order of arrival, into about LARGEST_CHUNK points each."""
    groups: dict[int, list[list[Chunk]]] = {}
    for chunk in chunks:
        of_attempt = groups.setdefault(chunk.attempt, [[]])
        if sum(other.count for other in of_attempt[-1]) >= LARGEST_CHUNK:
            of_attempt.append([])
        of_attempt[-1].append(chunk)
    return [group for of_attempt in groups.values() for group in of_attempt]


def _merged(chunks: list[Chunk]) -> Chunk:
    """Return one chunk of all their points, with the cursor of every point."""
    cursors = [
        unpack_ints(chunk.cursors) if chunk.cursors else np.full(chunk.count, chunk.cursor)
        for chunk in chunks
    ]
    steps = np.concatenate([unpack_ints(chunk.steps) for chunk in chunks])
    values = np.concatenate([unpack_floats(chunk.values) for chunk in chunks])
    times = np.concatenate([unpack_floats(chunk.times) for chunk in chunks])
    return Chunk(
        series_id=chunks[0].series_id,
        attempt=chunks[0].attempt,
        cursor=max(chunk.cursor for chunk in chunks),
        count=len(steps),
        first_step=int(steps.min()),
        last_step=int(steps.max()),
        steps=pack_ints(steps),
        values=pack_floats(values),
        times=pack_floats(times),
        cursors=pack_ints(np.concatenate(cursors)),
        outline=outlined(steps, values, times),
    )

"""Store points: one chunk a series and batch, merged later; facts and headline kept up to date."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from django.db import transaction

from webapp.metrics.arrays import pack_floats, pack_ints, read, unpack_floats, unpack_ints
from webapp.metrics.headline import headline_update
from webapp.metrics.models import Chunk, Series
from webapp.runs.models import Run
from workers.launch.events import MetricsEvent

MANY_CHUNKS = 200
"""A series with more is merged."""
LARGEST_CHUNK = 1 << 16
"""Points; a chunk of that size is left alone."""


@dataclass
class Column:
    """Points of one key in order of arrival."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


def points_store(run: Run, attempt: int, cursor: int, events: list[MetricsEvent]) -> None:
    """Append the points of a batch. The caller holds the run's row lock."""
    columns = _columns(events)
    known = {series.key: series for series in Series.objects.filter(run=run, key__in=columns)}
    touched = [known.get(key) or Series(run=run, key=key) for key in columns]
    for series in touched:
        _facts_update(series, attempt, columns[series.key])
    facts = ["count", "last_attempt", "last_step", "last_value", "last_time", "chunk_count"]
    Series.objects.bulk_create(
        touched, update_conflicts=True, unique_fields=["run", "key"], update_fields=facts
    )
    Chunk.objects.bulk_create(_chunk(series, attempt, cursor, columns[series.key]) for series in touched)
    headline_update(run, columns)


def series_compact(series_id: int) -> int:
    """Merge the small chunks of a series, attempt by attempt; how many rows fewer there are."""
    owner = Series.objects.values_list("run_id", flat=True).filter(pk=series_id).first()
    with transaction.atomic():
        Run.objects.select_for_update(no_key=True).filter(pk=owner).first()
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


def _columns(events: Iterable[MetricsEvent]) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for event in events:
        for key, value in event.values.items():
            column = columns.get(key)
            if column is None:
                column = columns[key] = Column()
            column.steps.append(event.step)
            column.values.append(read(value))
            column.times.append(event.time)
    return columns


def _facts_update(series: Series, attempt: int, column: Column) -> None:
    """The last point is the one with the highest (attempt, step); of equals, the latest to arrive."""
    series.count += len(column.steps)
    series.chunk_count += 1
    for step, value, time in zip(column.steps, column.values, column.times, strict=True):
        if series.last_attempt == 0 or (attempt, step) >= (series.last_attempt, series.last_step):
            series.last_attempt, series.last_step = attempt, step
            series.last_value, series.last_time = value, time


def _chunk(series: Series, attempt: int, cursor: int, column: Column) -> Chunk:
    return Chunk(
        series=series,
        attempt=attempt,
        cursor=cursor,
        count=len(column.steps),
        steps=pack_ints(column.steps),
        values=pack_floats(column.values),
        times=pack_floats(column.times),
    )


def _groups(chunks: list[Chunk]) -> list[list[Chunk]]:
    """Chunks of one attempt each, in order of arrival, of about LARGEST_CHUNK points together."""
    groups: dict[int, list[list[Chunk]]] = {}
    for chunk in chunks:
        of_attempt = groups.setdefault(chunk.attempt, [[]])
        if sum(other.count for other in of_attempt[-1]) >= LARGEST_CHUNK:
            of_attempt.append([])
        of_attempt[-1].append(chunk)
    return [group for of_attempt in groups.values() for group in of_attempt]


def _merged(chunks: list[Chunk]) -> Chunk:
    """One chunk of all their points; it remembers every point's own cursor."""
    cursors = [
        unpack_ints(chunk.cursors) if chunk.cursors else np.full(chunk.count, chunk.cursor) for chunk in chunks
    ]
    return Chunk(
        series_id=chunks[0].series_id,
        attempt=chunks[0].attempt,
        cursor=max(chunk.cursor for chunk in chunks),
        count=sum(chunk.count for chunk in chunks),
        steps=pack_ints(np.concatenate([unpack_ints(chunk.steps) for chunk in chunks])),
        values=pack_floats(np.concatenate([unpack_floats(chunk.values) for chunk in chunks])),
        times=pack_floats(np.concatenate([unpack_floats(chunk.times) for chunk in chunks])),
        cursors=pack_ints(np.concatenate(cursors)),
    )

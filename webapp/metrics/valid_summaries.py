"""Summaries of resumed runs: the first value, minimum and maximum of a series are those of its valid points.

Points that a later attempt repeats leave the summary. Most batches only add points; the others are recognised here, and the
summaries of their series are computed from all points.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from webapp.metrics.blocks import points_arrived
from webapp.metrics.buckets import superseded
from webapp.metrics.models import Series
from webapp.runs.models import Run

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

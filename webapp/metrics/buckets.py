"""A long series in a few hundred buckets: mean, minimum and maximum of each, so that smoothing and bands use every point.

Long series are drawn by their extremes (webapp.metrics.selectors): a moving average over those would depend on their
number. The buckets cover all valid points: finite, and not repeated by a later attempt.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webapp.metrics.arrays import Floats, Ints, for_charts, milliseconds

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

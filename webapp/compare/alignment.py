"""Aligns lines of different length and density on one axis, without extrapolation.

A run has values only between its own first and last point; elsewhere they are missing. The number of runs at every
point of the axis is part of the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from webapp.metrics.arrays import Floats

MOST_POINTS = 400
RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class RunCurve:
    """One run's curve: x strictly increasing, y finite."""

    x: Floats
    y: Floats
    left_out: int = 0
    """Number of points that were not finite."""


@dataclass(frozen=True)
class AlignedCurves:
    """Lines of runs with the same x, a row for each run: x strictly increasing, y finite."""

    runs: Sequence[str]
    x: Floats
    y: Floats
    """(runs, x)."""
    left_out: Sequence[int]
    """Number of points of each run that were not finite."""


@dataclass(frozen=True)
class Band:
    """Bounds at every point of the axis; NaN where undefined."""

    low: Floats
    high: Floats


def line_of(x: Floats, y: Floats) -> RunCurve:
    """Return points in order of arrival as a line: sorted by x, the last of equal x; values that are not finite are dropped."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    left_out = int((~finite).sum())
    if (x[1:] > x[:-1]).all():
        return RunCurve(x, y, left_out)
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    last = np.append(x[1:] != x[:-1], True)[: len(x)]
    return RunCurve(x[last], y[last], left_out)


def axis_of(lines: Sequence[RunCurve | AlignedCurves], most: int = MOST_POINTS) -> tuple[Floats, bool]:
    """Return the union of all x; if there are more than `most`, the midpoints of `most` equal bins (then True)."""
    positions = np.unique(np.concatenate([line.x for line in lines])) if lines else np.empty(0)
    if len(positions) <= most:
        return positions, False
    width = (positions[-1] - positions[0]) / most
    return positions[0] + width * (np.arange(most) + 0.5), True


def on_axis(line: RunCurve, axis: Floats, spans: bool) -> Floats:
    """Return the line's values at every point of the axis: the row of `curves_on_axis`."""
    row: Floats = curves_on_axis(AlignedCurves([""], line.x, line.y[None], [line.left_out]), axis, spans)[0]
    return row


def curves_on_axis(curves: AlignedCurves, axis: Floats, spans: bool) -> Floats:
    """Return the values of each row (runs, axis) at every point of the axis, NaN outside the range of its x.

    Values between two points are interpolated linearly. For an axis of bins, the lines are first averaged within each.
    """
    x, y = curves.x, curves.y
    if not len(x):
        return np.full((len(y), len(axis)), np.nan)
    if spans:
        x, y = _means(x, y, axis)
    return _interpolated(x, y, axis)


def _means(x: Floats, y: Floats, axis: Floats) -> tuple[Floats, Floats]:
    width = axis[1] - axis[0]
    places = np.clip(((x - axis[0]) / width + 0.5).astype(int), 0, len(axis) - 1)
    firsts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    counts = np.diff(np.append(firsts, len(x)))
    return axis[places[firsts]], np.add.reduceat(y, firsts, axis=1) / counts


def _interpolated(x: Floats, y: Floats, axis: Floats) -> Floats:
    if len(y) == 1:
        return np.asarray(np.interp(axis, x, y[0], left=np.nan, right=np.nan)).reshape(1, -1)
    if len(x) == len(axis) and (x == axis).all():
        return y
    table: Floats = np.full((len(y), len(axis)), np.nan)
    inside = np.flatnonzero((axis >= x[0]) & (axis < x[-1]))
    places = np.searchsorted(x, axis[inside], side="right") - 1
    shares = (axis[inside] - x[places]) / (x[places + 1] - x[places])
    table[:, inside] = y[:, places] + (y[:, places + 1] - y[:, places]) * shares
    table[:, axis == x[-1]] = y[:, -1:]
    return table


def smoothed(table: Floats, weight: float) -> Floats:
    """Return rows (runs, axis) as exponential moving averages along the axis, corrected for the bias of the start; NaN stays NaN."""
    sums, mass = np.zeros(len(table)), np.zeros(len(table))
    out = np.full(table.shape, np.nan)
    for column in range(table.shape[1]):
        finite = np.isfinite(table[:, column])
        sums[finite] = weight * sums[finite] + (1 - weight) * table[finite, column]
        mass[finite] = weight * mass[finite] + (1 - weight)
        out[finite, column] = sums[finite] / mass[finite]
    return out


def counts_of(table: Floats) -> NDArray[np.int64]:
    """Return the number of runs with a value at every point of the axis."""
    return np.asarray(np.isfinite(table).sum(axis=0), dtype=np.int64)


def mean_of(table: Floats) -> Floats:
    """Return the mean over the runs with a value; NaN where there is none."""
    return _divided(np.nansum(table, axis=0), counts_of(table))


def band_of(table: Floats, kind: str, seed: int = 0) -> Band | None:
    """Return the band around the mean of rows (runs, axis): "sd" (of the sample) and "ci" (percentiles of the means of
    resampled runs) need two runs, "minmax" one. None for any other kind.
    """
    if kind == "sd":
        mean, counts = mean_of(table), counts_of(table)
        deviation = np.sqrt(_divided(np.nansum((table - mean) ** 2, axis=0), counts - 1))
        return Band(mean - deviation, mean + deviation)
    if kind == "ci":
        return _interval(table, seed)
    if kind == "minmax":
        there = counts_of(table) > 0
        low, high = np.where(np.isfinite(table), table, np.inf), np.where(np.isfinite(table), table, -np.inf)
        return Band(np.where(there, low.min(axis=0), np.nan), np.where(there, high.max(axis=0), np.nan))
    return None


def _interval(table: Floats, seed: int) -> Band:
    """Weights (resamples, runs) are the counts of each run in a resample: all means are two matrix products."""
    runs = len(table)
    drawn = np.random.default_rng(seed).integers(0, runs, (RESAMPLES, runs))
    weights = np.bincount((drawn + np.arange(RESAMPLES)[:, None] * runs).ravel(), minlength=RESAMPLES * runs)
    weights = weights.reshape(RESAMPLES, runs).astype(float)
    there = np.isfinite(table)
    means = _divided(weights @ np.where(there, table, 0.0), weights @ there.astype(float))
    bounds: Floats = np.full((2, table.shape[1]), np.nan)
    some = there.sum(axis=0) > 1
    # A resample may contain none of the runs with a value; checking for that is slow, so it is done only where needed.
    gaps = np.isnan(means).any(axis=0)
    levels = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    for places, quantile in ((some & ~gaps, np.quantile), (some & gaps, np.nanquantile)):
        if places.any():
            bounds[:, places] = quantile(means[:, places], levels, axis=0)
    return Band(bounds[0], bounds[1])


def _divided(total: Floats, count: Floats | NDArray[np.int64]) -> Floats:
    """Return total / count, NaN where the count is not positive."""
    quotient: Floats = np.full(np.shape(total), np.nan)
    np.divide(total, count, out=quotient, where=np.asarray(count) > 0)
    return quotient

"""Downsampling that preserves the shape: per bucket of the index its first, last, minimum and maximum value, and a NaN.

Buckets are by index, not by step: steps may repeat or decrease (late points, resumed attempts), and an algorithm with
buckets by step returns nothing for equal steps. M4 ignores NaN; one NaN of every bucket that contains some is kept, so
neither a spike nor a NaN disappears.
"""

import numpy as np
from numpy.typing import NDArray
from tsdownsample import M4Downsampler

from webapp.metrics.arrays import Floats

PER_BUCKET = 4


def kept_indices(values: Floats, points: int) -> NDArray[np.int64]:
    """Return sorted indices of about `points` of the values (at most a quarter more if there are NaNs); all if they fit."""
    if len(values) <= points:
        return np.arange(len(values))
    buckets = max(1, points // PER_BUCKET)
    odd = np.flatnonzero(np.isnan(values))
    _, firsts = np.unique(odd * buckets // len(values), return_index=True)
    ends = np.array([0, len(values) - 1])
    finite = np.flatnonzero(~np.isnan(values))
    return np.unique(np.concatenate([ends, odd[firsts], finite[_m4(values[finite], buckets)]]))


def _m4(values: Floats, buckets: int) -> NDArray[np.int64]:
    if len(values) <= buckets * PER_BUCKET:
        return np.arange(len(values))
    downsampler = M4Downsampler()  # type: ignore[no-untyped-call]
    return np.asarray(
        downsampler.downsample(np.ascontiguousarray(values), n_out=buckets * PER_BUCKET), dtype=np.int64
    )

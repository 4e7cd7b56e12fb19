"""Arrays of numbers as compressed bytes, and numbers as JSON can carry them."""

from collections.abc import Sequence
from math import isfinite, isnan
from threading import local

import numpy as np
import zstandard
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Packed = bytes | memoryview
WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def pack_ints(values: Sequence[int] | Ints) -> bytes:
    """Little-endian int64, zstd."""
    return _pack(np.asarray(values, dtype="<i8").tobytes())


def pack_floats(values: Sequence[float] | Floats) -> bytes:
    """Little-endian float64, zstd; NaN and infinities as such."""
    return _pack(np.asarray(values, dtype="<f8").tobytes())


def unpack_ints(data: Packed) -> Ints:
    """What pack_ints made."""
    return np.frombuffer(_unpack(data), dtype="<i8")


def unpack_floats(data: Packed) -> Floats:
    """What pack_floats made."""
    return np.frombuffer(_unpack(data), dtype="<f8")


def spell(value: float) -> float | str:
    """A number for JSON: NaN and infinities as words."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def read(value: float | str) -> float:
    """The number that an event or `spell` wrote."""
    return WORDS[value] if isinstance(value, str) else value


class _Zstd(local):
    """One of each per thread: making them costs more than a small array, and threads may not share them.

    Level 1: arrays are mostly a few numbers.
    """

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Zstd()


def _pack(data: bytes) -> bytes:
    return _zstd.compressor.compress(data)


def _unpack(data: Packed) -> bytes:
    return _zstd.decompressor.decompress(data)

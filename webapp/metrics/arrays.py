"""Arrays of numbers as compressed bytes, and numbers as valid JSON."""

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
    """Pack as little-endian int64, zstd."""
    return _pack(np.asarray(values, dtype="<i8").tobytes())


def pack_floats(values: Sequence[float] | Floats) -> bytes:
    """Pack as little-endian float64, zstd; NaN and infinities are preserved."""
    return _pack(np.asarray(values, dtype="<f8").tobytes())


def unpack_ints(data: Packed) -> Ints:
    """Inverse of pack_ints."""
    return np.frombuffer(_unpack(data), dtype="<i8")


def unpack_floats(data: Packed) -> Floats:
    """Inverse of pack_floats."""
    return np.frombuffer(_unpack(data), dtype="<f8")


def unpack_floats_joined(parts: Sequence[Packed]) -> Floats:
    """Return the numbers of several packed arrays in one array."""
    return np.frombuffer(b"".join(map(_unpack, parts)), dtype="<f8")


def spell(value: float) -> float | str:
    """Return a number for JSON: NaN and infinities as strings."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def read(value: float | str) -> float:
    """Return the number written by an event or `spell`."""
    return WORDS[value] if isinstance(value, str) else value


def for_charts(values: Floats) -> Floats:
    """Return the values rounded as a chart can show them: a number with all its digits takes three times the bytes.

    Six significant digits are retained, and at least a 100,000th of the range of the values, so that a small change of a large
    value remains, and a small value among large ones on a logarithmic axis too.
    """
    finite = values[np.isfinite(values)]
    extent = np.ptp(finite) if len(finite) else 0.0
    with np.errstate(all="ignore"):
        shown = np.minimum(np.abs(values), extent) if extent > 0 else np.abs(values)
        scale = 10.0 ** np.maximum(5 - np.floor(np.log10(shown)), 0)
        rounded = np.rint(values * scale) / scale
    return np.where(np.isfinite(rounded), rounded, values)


def milliseconds(times: Floats) -> Floats:
    """Return times in seconds rounded to milliseconds."""
    return np.round(times, 3)


class _Zstd(local):
    """One of each per thread: their construction costs more than a small array, and threads must not share them.

    Level 1: most arrays have only a few numbers.
    """

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Zstd()


def _pack(data: bytes) -> bytes:
    return _zstd.compressor.compress(data)


def _unpack(data: Packed) -> bytes:
    return _zstd.decompressor.decompress(data)

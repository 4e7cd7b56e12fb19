"""Media: values of a step that are not one number. `troupe.log({"weights": troupe.Histogram(x)})`.

Each class converts its argument when it is made, so that the program may change the original afterwards. numpy is imported
for arrays only. Dimensions: H height, W width, C channels (1 grey, 3 RGB, 4 RGBA).
"""

import base64
import io
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_core.errors import TroupeError
from workers.telemetry.limits import (
    MAX_BINS,
    MAX_CAPTION,
    MAX_CELL,
    MAX_COLUMNS,
    MAX_EDGE,
    MAX_IMAGE,
    MAX_ITEMS,
    MAX_MEDIA_TEXT,
    MAX_ROWS,
    image_type,
)

if TYPE_CHECKING:
    from numpy import ndarray

_CHANNELS = {1: 0, 3: 2, 4: 6}
"""Colour types of PNG by number of channels."""


class Media:
    """Base of the media. `limit` is the reason why a value is too large to be stored; empty if it is not."""

    kind = ""
    limit = ""

    def __init__(self, caption: str = "") -> None:
        self.caption = str(caption)[:MAX_CAPTION]

    def document(self) -> dict[str, Any]:
        """Return the value as in workers.telemetry.events."""
        return {"kind": self.kind, "caption": self.caption}


class Histogram(Media):
    """The distribution of `values`: an array or a tensor of any shape, or numbers. NaN and infinities are counted in the caption.

    Instead of values, `counts` (B) and their increasing `edges` (B + 1) may be given. Raises TroupeError for bad arguments.
    """

    kind = "histogram"

    def __init__(
        self,
        values: Any = None,
        *,
        bins: int = 64,
        counts: Iterable[float] | None = None,
        edges: Iterable[float] | None = None,
        caption: str = "",
    ) -> None:
        if not 1 <= bins <= MAX_BINS:
            raise TroupeError(f"a histogram has 1 to {MAX_BINS} bins, not {bins}")
        if values is not None:
            self.counts, self.edges, strange = _counted(values, bins)
            caption = f"{caption} {strange} values are NaN or infinite".strip() if strange else caption
        else:
            self.counts = [float(count) for count in (() if counts is None else counts)]
            self.edges = [float(edge) for edge in (() if edges is None else edges)]
            _check_bins(self.counts, self.edges)
        super().__init__(caption)

    def document(self) -> dict[str, Any]:
        """Return the value as in workers.telemetry.events."""
        return super().document() | {"counts": self.counts, "edges": self.edges}


class Image(Media):
    """A picture: an array or a tensor of H x W, H x W x C or C x H x W, a path of a PNG, JPEG, GIF or WebP file, its bytes, an image
    of PIL, or a figure of matplotlib.

    Whole numbers are 0 to 255. Other numbers are 0 to 1; those of another range are scaled from their lowest to their highest.
    Raises TroupeError for anything else.
    """

    kind = "image"

    def __init__(self, source: Any, caption: str = "") -> None:
        super().__init__(caption)
        self.width = self.height = 0
        """Pixels; 0 if unknown."""
        self.data = self._encoded(source)
        if not image_type(self.data[:16]):
            raise TroupeError("Image takes PNG, JPEG, GIF and WebP; convert other formats first")
        if len(self.data) > MAX_IMAGE:
            self.limit = f"an image has at most {MAX_IMAGE >> 20} MiB, this one has {len(self.data):,} bytes"

    def document(self) -> dict[str, Any]:
        """Return the value as in workers.telemetry.events."""
        size = {"width": self.width, "height": self.height}
        return super().document() | size | {"data": base64.b64encode(self.data).decode()}

    def _encoded(self, source: Any) -> bytes:
        if isinstance(source, bytes):
            return source
        if isinstance(source, str | os.PathLike):
            return Path(source).read_bytes()
        written = io.BytesIO()
        if hasattr(source, "savefig"):
            source.savefig(written, format="png")
        elif hasattr(source, "save") and hasattr(source, "mode"):
            source.save(written, "PNG")
        else:
            pixels = _pixels(_array(source, "Image"))
            self.height, self.width = pixels.shape[:2]
            return _png(pixels)
        return written.getvalue()


class Table(Media):
    """Rows: mappings, sequences with the names of their `columns`, an array of two dimensions, or a DataFrame.

    Cells are numbers, text, booleans and None; others become their text. Raises TroupeError for rows of different lengths.
    """

    kind = "table"

    def __init__(self, rows: Any, columns: Sequence[str] | None = None, caption: str = "") -> None:
        super().__init__(caption)
        named = getattr(rows, "columns", None)
        if named is not None and hasattr(rows, "itertuples"):
            columns, rows = columns or [str(name) for name in named], rows.itertuples(index=False)
        items = [_plain(row) for row in _plain(rows)]
        if all(isinstance(item, Mapping) for item in items):
            names = list(dict.fromkeys(name for item in items for name in item))
            items = [[item.get(name) for name in names] for item in items]
            columns = columns or [str(name) for name in names]
        self.rows = [[_cell(cell) for cell in _sequence(item)] for item in items]
        width = max(map(len, self.rows), default=len(columns or ()))
        self.columns = [str(name)[:MAX_CELL] for name in columns or range(width)]
        if any(len(row) != len(self.columns) for row in self.rows):
            raise TroupeError(f"each row of a table needs {len(self.columns)} cells, one for each column")
        if len(self.rows) > MAX_ROWS or len(self.columns) > MAX_COLUMNS:
            self.limit = f"a table has at most {MAX_ROWS:,} rows and {MAX_COLUMNS} columns; store a larger one with log_artifact"

    def document(self) -> dict[str, Any]:
        """Return the value as in workers.telemetry.events."""
        return super().document() | {"columns": self.columns, "rows": self.rows}

    def mappings(self) -> list[dict[str, Any]]:
        """Return the rows as mappings of column to cell."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Text(Media):
    """A text, shown as it is."""

    kind = "text"

    def __init__(self, text: Any, caption: str = "") -> None:
        super().__init__(caption)
        self.text = str(text)
        if len(self.text) > MAX_MEDIA_TEXT:
            self.limit = f"a text has at most {MAX_MEDIA_TEXT:,} characters, this one has {len(self.text):,}"

    def document(self) -> dict[str, Any]:
        """Return the value as in workers.telemetry.events."""
        return super().document() | {"text": self.text}


def media_of(value: Any) -> list[Media]:
    """Return a logged value as a list of media; empty if it is none."""
    if isinstance(value, Media):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(item, Media) for item in value):
        return list(value)
    return []


def limit_of(media: Sequence[Media]) -> str:
    """Return why these media of one name are not stored; empty if they are."""
    if len(media) > MAX_ITEMS:
        return f"one name takes at most {MAX_ITEMS} media at a step, these are {len(media)}"
    return next((item.limit for item in media if item.limit), "")


def _array(value: Any, taker: str) -> "ndarray[Any, Any]":
    """Return an array of numpy: of a tensor, an array, or nested sequences of numbers."""
    try:
        import numpy
    except ImportError as error:
        raise TroupeError(f"{taker} of an array needs numpy: pip install numpy") from error
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()  # numpy has no bfloat16
    elif not hasattr(value, "__array__") and not isinstance(value, list | tuple):
        value = list(value) if isinstance(value, Iterable) else value
    array = numpy.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TroupeError(f"{taker} takes real numbers, not {type(value).__name__} of {array.dtype}")
    return array


def _counted(values: Any, bins: int) -> tuple[list[float], list[float], int]:
    """Return counts, edges, and how many values are not finite."""
    import numpy

    array = _array(values, "Histogram").ravel().astype(numpy.float64)
    finite = array[numpy.isfinite(array)].clip(-MAX_EDGE, MAX_EDGE)
    strange = array.size - finite.size
    if not finite.size:
        return [0.0], [0.0, 1.0], strange
    edges = numpy.linspace(finite.min(), finite.max(), bins + 1)
    if not (numpy.diff(edges) > 0).all():  # equal values, or too close to be told apart
        half = abs(finite[0]) * 1e-6 or 0.5
        edges = numpy.linspace(finite.min() - half, finite.max() + half, 3)
    counts, _ = numpy.histogram(finite, edges)
    return counts.astype(float).tolist(), edges.tolist(), strange


def _check_bins(counts: list[float], edges: list[float]) -> None:
    if not counts or len(edges) != len(counts) + 1 or len(counts) > MAX_BINS:
        raise TroupeError(f"Histogram needs values, or 1 to {MAX_BINS} counts with one more edge")
    increase = (
        all(low < high for low, high in pairwise(edges)) and edges[0] >= -MAX_EDGE and edges[-1] <= MAX_EDGE
    )
    if not increase or not all(0 <= count <= MAX_EDGE for count in counts):
        raise TroupeError(
            f"counts of a histogram are 0 or more, and its edges increase, between ±{MAX_EDGE:g}"
        )


def _pixels(array: "ndarray[Any, Any]") -> "ndarray[Any, Any]":
    """Return bytes of H x W x C."""
    import numpy

    if array.ndim == 3 and array.shape[2] not in _CHANNELS and array.shape[0] in _CHANNELS:
        array = array.transpose(1, 2, 0)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in _CHANNELS or 0 in array.shape:
        raise TroupeError(
            f"Image takes H x W, H x W x C or C x H x W with 1, 3 or 4 channels, not {array.shape}"
        )
    if array.dtype.kind == "b":
        return array.astype(numpy.uint8) * 255
    if array.dtype.kind != "f":
        return array.clip(0, 255).astype(numpy.uint8)
    array = numpy.nan_to_num(array.astype(numpy.float64), nan=0.0, posinf=1.0, neginf=0.0)
    low, high = array.min(), array.max()
    if low < 0 or high > 1:
        array = (array - low) / ((high - low) or 1.0)
    return (array * 255).round().astype(numpy.uint8)


def _png(pixels: "ndarray[Any, Any]") -> bytes:
    """Encode bytes of H x W x C as PNG (ISO/IEC 15948), without a filter."""
    height, width, channels = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, _CHANNELS[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )


def _plain(value: Any) -> Any:
    """Convert arrays and tensors to lists."""
    if isinstance(value, Mapping):
        return value
    value = value.detach().cpu() if hasattr(value, "detach") else value
    return value.tolist() if hasattr(value, "tolist") else value


def _sequence(row: Any) -> Sequence[Any]:
    if isinstance(row, list | tuple):
        return row
    raise TroupeError(f"Table takes mappings or sequences as rows, not {type(row).__name__}")


def _cell(value: Any) -> float | int | str | bool | None:
    value = _plain(value)
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**53):
        return value
    return str(value)[:MAX_CELL]

"""Media of a run: histograms, images, tables and texts by name and step."""

from functools import cached_property
from itertools import zip_longest
from typing import Any

import orjson
import zstandard
from django.db import models

from webapp.common.run_rows import RunRows
from webapp.runs.models import Run

FIRST_ROWS = 20
"""Rows of a table that a page contains; its script reads the others."""


class MediaValue(models.Model):
    """One histogram, image, table or text. Several of one name and step have positions from 0."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="media", db_index=False)
    attempt = models.IntegerField()
    step = models.BigIntegerField()
    time = models.FloatField()
    """Seconds since the epoch; equal for the values of one call."""
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=12)
    """histogram, image, table or text."""
    position = models.PositiveSmallIntegerField()
    caption = models.CharField(max_length=500, blank=True)
    media_type = models.CharField(max_length=20, blank=True)
    """Of an image, such as image/png."""
    width = models.IntegerField(default=0)
    height = models.IntegerField(default=0)
    """Pixels; 0 if unknown."""
    data = models.BinaryField()
    """The file of an image; of others zstd-compressed JSON as in workers.telemetry.events, without kind and caption."""
    size = models.IntegerField()
    """Bytes stored."""

    objects = RunRows["MediaValue"].as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["run", "name", "step"], name="media_by_name"),
            models.Index(fields=["run", "step"], name="media_by_step"),
            models.Index(fields=["run", "-id"], name="media_by_arrival"),
        ]

    @cached_property
    def content(self) -> dict[str, Any]:
        """Return the value: counts and edges, columns and rows, or text. Images have none."""
        if self.kind == "image":
            return {}
        content: dict[str, Any] = orjson.loads(zstandard.decompress(bytes(self.data)))
        return content

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Return (name, class) of a table's columns: "num" for numbers, possibly with empty cells."""
        kinds = [{type(cell) for cell in column} for column in zip(*self.content["rows"], strict=True)]
        names = self.content["columns"]
        return [
            (name, "num" if some and some <= {int, float, type(None)} else "")
            for name, some in zip_longest(names, kinds)
        ]

    @property
    def first_rows(self) -> list[list[tuple[str, str]]]:
        """Return (text, class) of the cells of a table's first FIRST_ROWS rows, as static/js/media/table.js writes them."""
        classes = [style for _, style in self.columns]
        return [
            [(_text(cell), style) for cell, style in zip(row, classes, strict=True)]
            for row in self.content["rows"][:FIRST_ROWS]
        ]


def _text(cell: Any) -> str:
    if cell is None or isinstance(cell, str):
        return "–" if cell is None else cell
    return orjson.dumps(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).decode()

"""Previews of files of artifacts: bounded, as text, tables or images of listed kinds. Templates escape every text."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from webapp.artifacts.models import ArtifactFile, ArtifactVersion
from webapp.artifacts.storage import content_path
from workers.telemetry.limits import image_type

MOST_BYTES = 64 * 1024
"""Bytes of a file that are read."""
MOST_ROWS, MOST_COLUMNS, MOST_CHARACTERS = 20, 20, 200
"""Of a table, and of a cell."""
MOST_LINES = 200
LARGEST_IMAGE = 4 << 20


@dataclass
class Preview:
    """What the page shows of a file."""

    path: str
    kind: str
    """text, table, image or none."""
    note: str = ""
    text: str = ""
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def preview_of(version: ArtifactVersion, file: ArtifactFile) -> Preview:
    """Return the preview of a file; never raises for its content."""
    path = content_path(version.artifact.project, file.sha256)
    if version.removed or not path.is_file():
        return Preview(file.path, "none", "The content is not on the web server's machine.")
    with path.open("rb") as stored:
        start = stored.read(MOST_BYTES)
    if image_type(start):
        large = file.size > LARGEST_IMAGE
        return Preview(file.path, "none" if large else "image", "The image is too large." if large else "")
    cut = file.size > len(start)
    if b"\0" in start:
        return Preview(file.path, "none", "A binary file.")
    text = start.decode(errors="replace")
    lines = text.splitlines()
    if cut and len(lines) > 1:
        lines.pop()  # may be a part of a line
    suffix = Path(file.path).suffix.lower()
    if table := _table(suffix, lines):
        columns, rows = table
        return Preview(
            file.path, "table", _note(len(rows), "rows", cut or len(lines) > MOST_ROWS), "", columns, rows
        )
    if suffix == ".json" and not cut:
        lines = _pretty(text).splitlines()
    shown = "\n".join(lines[:MOST_LINES])
    return Preview(
        file.path, "text", _note(min(len(lines), MOST_LINES), "lines", cut or len(lines) > MOST_LINES), shown
    )


def _note(count: int, what: str, more: bool) -> str:
    return f"the first {count} {what}" if more else f"{count} {what}"


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _table(suffix: str, lines: list[str]) -> tuple[list[str], list[list[str]]] | None:
    """Columns and first rows of CSV, TSV or JSON Lines; None for other files, and for lines that are not objects."""
    if suffix in (".csv", ".tsv"):
        delimiter = "\t" if suffix == ".tsv" else ","
        try:
            head, *rows = islice(
                csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter), MOST_ROWS + 1
            )
        except (csv.Error, ValueError):
            return None
        return _cells(head), [_cells(row) for row in rows]
    if suffix not in (".jsonl", ".ndjson"):
        return None
    try:
        objects = [json.loads(line) for line in islice(filter(str.strip, lines), MOST_ROWS)]
    except (ValueError, RecursionError):
        return None
    if not objects or not all(isinstance(item, dict) for item in objects):
        return None
    columns = list(dict.fromkeys(name for item in objects for name in item))[:MOST_COLUMNS]
    rows = [_cells(_value(item[name]) if name in item else "" for name in columns) for item in objects]
    return _cells(columns), rows


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cells(values: Iterable[str]) -> list[str]:
    shown = islice(values, MOST_COLUMNS)
    return [value if len(value) <= MOST_CHARACTERS else f"{value[:MOST_CHARACTERS]}…" for value in shown]

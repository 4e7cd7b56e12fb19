"""Contents of artifacts on disk, by SHA-256 in TROUPE_HOME/artifacts/PROJECT/AB/ABCD...; their downloads and previews.

A download is whole or begins at an offset. A preview is bounded: text, a table or an image of a listed kind. Templates escape its text.
"""

import asyncio
import csv
import hashlib
import io
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse

from training_core.errors import ConfigError
from training_core.json_lines import InvalidJson, parse_json
from webapp.accounts.models import Project
from webapp.artifacts.models import ArtifactFile, ArtifactVersion
from webapp.common.attachments import attachment
from workers.telemetry.limits import image_type

RANGE = re.compile(r"bytes=(\d{1,18})-")
"""A range from an offset to the end, with which a client continues a download."""


def file_response(
    request: HttpRequest, version: ArtifactVersion, path: str
) -> HttpResponse | StreamingHttpResponse:
    """Return the content of a file, never in memory as a whole. Raises Http404."""
    file = version.files.filter(path=path[:400].replace("\0", "")).first()
    if file is None or version.removed:
        raise Http404(f"{version} has no file {path[:80]}")
    stored = content_path(version.artifact.project, file.sha256)
    if not stored.is_file():
        raise Http404(f"the content of {path[:80]} is not on the web server's machine")
    match = RANGE.fullmatch(request.headers.get("Range", ""))
    start = int(match[1]) if match else 0
    if start and start >= file.size:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{file.size}"})
    chunks = _chunks(stored, start)
    response = StreamingHttpResponse(
        _in_threads(chunks) if isinstance(request, ASGIRequest) else chunks,
        status=206 if match else 200,
        content_type="application/octet-stream",
        headers={
            "Content-Length": str(file.size - start),
            "Content-Disposition": attachment(Path(file.path).name),
            "Accept-Ranges": "bytes",
            "ETag": f'"{file.sha256}"',
        },
    )
    if match:
        response["Content-Range"] = f"bytes {start}-{file.size - 1}/{file.size}"
    return response


def _chunks(path: Path, start: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while chunk := file.read(CHUNK):
            yield chunk


async def _in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Read the disk in threads, outside the event loop."""
    while chunk := await asyncio.to_thread(next, chunks, b""):
        yield chunk


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
    text = start.decode(errors="replace").replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n")
    if cut and len(lines) > 1:
        lines.pop()  # may be a part of a line
    suffix = Path(file.path).suffix.lower()
    if table := _table(suffix, lines):
        columns, rows = table
        return Preview(
            file.path, "table", _note(len(rows), "rows", cut or len(lines) > MOST_ROWS), "", columns, rows
        )
    if suffix == ".json" and not cut:
        lines = _pretty(text).split("\n")
    shown = "\n".join(lines[:MOST_LINES])
    return Preview(
        file.path, "text", _note(min(len(lines), MOST_LINES), "lines", cut or len(lines) > MOST_LINES), shown
    )


def _note(count: int, what: str, more: bool) -> str:
    return f"the first {count} {what}" if more else f"{count} {what}"


def _pretty(text: str) -> str:
    try:
        return json.dumps(parse_json(text), indent=2, ensure_ascii=False)
    except InvalidJson:
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
        objects = [parse_json(line) for line in islice(filter(str.strip, lines), MOST_ROWS)]
    except InvalidJson:
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


LARGEST_FILE = 8 << 30
"""Maximum bytes of one file."""
CHUNK = 1 << 20
SHA256 = re.compile(r"[0-9a-f]{64}")
NO_HASH = "0" * 64


def content_path(project: Project, sha256: str) -> Path:
    """Return the path of a content. Raises ConfigError for an invalid hash."""
    if not SHA256.fullmatch(sha256):
        raise ConfigError({"sha256": "give 64 lower-case hexadecimal digits"})
    return Path(settings.TROUPE_HOME) / "artifacts" / str(project.pk) / sha256[:2] / sha256


def content_missing(project: Project, hashes: Iterable[str]) -> list[str]:
    """Return the hashes whose contents are not stored."""
    return [sha256 for sha256 in dict.fromkeys(hashes) if not content_path(project, sha256).is_file()]


def content_write(project: Project, sha256: str, read: Callable[[int], bytes]) -> tuple[str, int]:
    """Store a content from `read(size)`, and return its hash and bytes. Raises ConfigError if it is too large or has another hash.

    sha256: empty if the sender does not know it.
    """
    folder = content_path(project, sha256 or NO_HASH).parent.parent
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{secrets.token_hex(8)}"
    digest, size = hashlib.sha256(), 0
    try:
        with draft.open("wb") as file:
            while chunk := read(CHUNK):
                size += len(chunk)
                if size > LARGEST_FILE:
                    raise ConfigError({"size": f"a file has at most {LARGEST_FILE:,} bytes"})
                digest.update(chunk)
                file.write(chunk)
        if sha256 and digest.hexdigest() != sha256:
            raise ConfigError(
                {"sha256": f"the received bytes have the hash {digest.hexdigest()}; send them again"}
            )
        path = content_path(project, digest.hexdigest())
        path.parent.mkdir(exist_ok=True)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return digest.hexdigest(), size


def content_delete(project: Project, hashes: Iterable[str]) -> None:
    """Delete contents; missing ones are ignored."""
    for sha256 in hashes:
        content_path(project, sha256).unlink(missing_ok=True)

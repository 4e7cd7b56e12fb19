"""Files of artifacts as downloads, whole or from an offset."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse

from webapp.artifacts.models import ArtifactVersion
from webapp.artifacts.storage import CHUNK, content_path
from webapp.common.attachments import attachment

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

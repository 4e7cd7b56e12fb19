"""Downloads."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header


def stream(
    request: HttpRequest, parts: Iterator[bytes], content_type: str, name: str
) -> StreamingHttpResponse:
    """Return a download named `name`, generated part by part; generating may read the database, no part may be empty."""
    asynchronous = isinstance(request, ASGIRequest)
    answer = StreamingHttpResponse(_later(parts) if asynchronous else parts, content_type=content_type)
    answer["Content-Disposition"] = attachment(name)
    return answer


async def _later(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Iterate over the parts in a thread, without blocking the event loop."""
    following = sync_to_async(lambda: next(parts, b""))
    while part := await following():
        yield part


def attachment(name: str) -> str:
    """Return the Content-Disposition for a download named `name`, with any characters."""
    return content_disposition_header(as_attachment=True, filename=name) or "attachment"

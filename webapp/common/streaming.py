"""Answers that are made while they are sent."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from webapp.common.attachments import attachment


def stream(
    request: HttpRequest, parts: Iterator[bytes], content_type: str, name: str
) -> StreamingHttpResponse:
    """A file `name` to download, its parts made one by one; they may read the database, none may be empty."""
    asynchronous = isinstance(request, ASGIRequest)
    answer = StreamingHttpResponse(_later(parts) if asynchronous else parts, content_type=content_type)
    answer["Content-Disposition"] = attachment(name)
    return answer


async def _later(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same without holding up the event loop."""
    following = sync_to_async(lambda: next(parts, b""))
    while part := await following():
        yield part

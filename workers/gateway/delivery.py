"""Delivery of answers: a call whose client has gone before its response is sent counts as not received."""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from workers.gateway.answering import Answered, discard
from workers.gateway.encoding import encoded, event
from workers.http.body_limit import Receive, Send


class Delivered(Response):
    """A complete body that answers calls. If the client has disconnected before it is sent, the calls are discarded."""

    def __init__(
        self, parts: list[Answered], body: bytes, headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__(body, 200, headers, media_type)
        self._parts = parts

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Send it; see the ASGI specification."""
        if await Request(scope, receive).is_disconnected():
            discard(self._parts)
        await super().__call__(scope, receive, send)


def whole(parts: list[Answered], document: Any, headers: Mapping[str, str]) -> Delivered:
    """A response in one piece."""
    return Delivered(parts, encoded(document), headers, "application/json")


def streamed(
    parts: list[Answered], documents: Iterable[Mapping[str, Any]], headers: Mapping[str, str]
) -> Delivered:
    """A stream of server-sent events. They are all known when it begins, so that they are sent at once."""
    events = b"".join(map(event, documents)) + b"data: [DONE]\n\n"
    return Delivered(parts, events, headers, "text/event-stream")

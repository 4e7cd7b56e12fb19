"""A limit on the bodies of HTTP requests, in front of every server of ours: refused before they fill memory or disk.

It stands here because the web side and the workers both listen, and this package is what they share.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application: frameworks write the types of its arguments each in their own way."""


class BodyLimit:
    """An ASGI application behind a limit: 413 by Content-Length at once, and as soon as more than that has come.

    `refusal` makes the answer's JSON of a sentence, in the shape that the application's clients know.
    """

    def __init__(self, app: App, most: int, refusal: Callable[[str], Any]) -> None:
        self._app = app
        self._most = most
        self._refusal = refusal

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _announced(scope) > self._most:
            await self._refuse(send)
        else:
            await self._counted(scope, receive, send)

    async def _counted(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Count what comes. Beyond the limit the application hears that its client has left, and is not heard any more."""
        came, answering = 0, False

        async def counted() -> Message:
            nonlocal came
            message = await receive() if came <= self._most else {"type": "http.disconnect"}
            came += len(message.get("body", b""))
            return message if came <= self._most else {"type": "http.disconnect"}

        async def heard(message: Message) -> None:
            nonlocal answering
            if came <= self._most or answering:
                answering = True
                await send(message)

        try:
            await self._app(scope, counted, heard)
        except Exception:
            if came <= self._most:
                raise
        if came > self._most and not answering:
            await self._refuse(send)

    async def _refuse(self, send: Send) -> None:
        said = json.dumps(self._refusal(f"a request's body has at most {self._most} bytes")).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(said)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": said})


def _announced(scope: MutableMapping[str, Any]) -> int:
    """Content-Length, 0 where none is told: then it comes in chunks, which are counted."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0

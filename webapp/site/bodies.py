"""Bodies of requests are read before Django processes the request, within bounds of size, time and number.

The first PART of a body is kept in memory. What is longer is read only after its caller is known and may write there, and goes to a
temporary file. A slow body holds no thread: it costs a task and a part in memory.
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import Any

from channels.db import DatabaseSyncToAsync

from webapp.site.callers import CHECKS, Refused, caller_check, limit_of
from webapp.stack.connections import Waiting
from workers.http import App, Message, Receive, Send, answer_json, content_length

PART = 64 * 1024
"""Bytes that an unknown caller may send, and that each body must bring in SECONDS."""
SECONDS = 60.0
IN_MEMORY = 8 * PART
"""Bytes of a body before it goes to a file: more than the server hands on at once, so that nothing of an unknown caller is stored."""
LINGER, LINGER_BYTES = 2.0, 16 << 20
"""Seconds and bytes that are received and discarded after a refusal: a client that is still sending would not see the response."""
UNKNOWN, UNKNOWN_OF_ADDRESS = 1000, 500
"""Maximum numbers of unfinished bodies of at most PART bytes."""
LARGE, LARGE_OF_CALLER = 500, 250
"""Maximum numbers of unfinished longer ones."""


class Received:
    """The rest of an ASGI connection whose body is in `file`."""

    def __init__(self, file: "SpooledTemporaryFile[bytes]", receive: Receive) -> None:
        self.file, self._receive = file, receive

    async def __call__(self) -> Message:
        """Return the next message, which says that the client has closed the connection."""
        return await self._receive()


class Disconnected(Exception):
    """The client has closed the connection."""


class Bodies:
    """An ASGI wrapper that calls `app` with a Received in place of `receive`, or refuses the request."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._unknown = Waiting(UNKNOWN, UNKNOWN_OF_ADDRESS)
        self._large = Waiting(LARGE, LARGE_OF_CALLER)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        with SpooledTemporaryFile(max_size=IN_MEMORY) as file:
            body = _Body(receive, file, limit_of(scope))
            try:
                await self._read(scope, body)
            except Disconnected:
                return
            except Refused as refused:
                return await _refuse(scope, body, send, refused)
            file.seek(0)
            await self._app(scope, Received(file, receive), send)

    async def _read(self, scope: Mapping[str, Any], body: "_Body") -> None:
        announced = content_length(scope)
        body.bound(announced)
        if announced <= PART:
            address = (scope.get("client") or ("",))[0]
            await body.read(self._unknown, address, PART)
        if body.more:
            caller = await DatabaseSyncToAsync(caller_check, thread_sensitive=False, executor=CHECKS)(scope)
            await body.read(self._large, caller, body.most)


class _Body:
    """A body that is being received."""

    def __init__(self, receive: Receive, file: "SpooledTemporaryFile[bytes]", most: int) -> None:
        self.receive, self._file, self.most = receive, file, most
        self._size = 0
        self.more = True
        """Whether the client has not sent all of it."""

    async def read(self, waiting: Waiting, client: object, until: int) -> None:
        """Store it until its end, or until it has more than `until` bytes. Raises Refused, Disconnected."""
        clock = asyncio.get_running_loop().time
        part = self._size
        try:
            async with asyncio.timeout(SECONDS) as deadline:
                waiting.add(self, client, lambda: deadline.reschedule(clock()))
                while self.more and self._size <= until:
                    await self._store()
                    if self._size - part >= PART:
                        deadline.reschedule(clock() + SECONDS)
                        part = self._size
        except TimeoutError:
            few = f"the body did not arrive: send at least {PART} bytes in {SECONDS:.0f} s, and fewer bodies at a time"
            raise Refused(408, "timeout", few) from None
        except OSError as error:
            raise Refused(507, "storage", f"the server cannot store the body: {error.strerror}") from error
        finally:
            waiting.remove(self)

    def bound(self, size: int) -> None:
        """Raise Refused for more bytes than the address permits."""
        if size > self.most:
            raise Refused(413, "too_large", f"the body of a request may have at most {self.most} bytes")

    async def _store(self) -> None:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        self.more = message.get("more_body", False)
        self._size += len(message.get("body", b""))
        self.bound(self._size)
        self._file.write(message.get("body", b""))


async def _refuse(scope: Mapping[str, Any], body: _Body, send: Send, refused: Refused) -> None:
    """Answer, and receive the rest of the body for a moment without storing it."""
    headers = {"connection": "close"} | ({"www-authenticate": "Bearer"} if refused.status == 401 else {})
    document = refused.document(scope["path"])
    await answer_json(send, refused.status, document, headers, more_body=True)
    more, left = body.more and refused.status != 408, LINGER_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            while more and left > 0:
                message = await body.receive()
                left -= len(message.get("body", b""))
                more = message.get("more_body", False)
    await send({"type": "http.response.body"})

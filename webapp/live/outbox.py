"""The send queue of one socket: bounded, so that a slow browser does not affect the others."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable

from webapp.live.frames import Write

MAX_MESSAGES = 64
MAX_CHARACTERS = 8_000_000


def resync(cursor: int) -> str:
    """Return the message for a client that is too far behind: reload through the API and continue from `cursor`."""
    return json.dumps({"type": "resync", "cursor": cursor})


class Outbox:
    """Queued messages of a socket. If there are too many, they are replaced by one `resync`; a socket without a cursor is closed
    instead: the client reconnects and reloads. `write`: see webapp.live.frames.
    """

    def __init__(
        self,
        send: Callable[[str], Awaitable[None]],
        close: Callable[[], Awaitable[None]] | None = None,
        write: Write | None = None,
    ) -> None:
        self._send = send
        self._give_up = close
        self._write = write
        self._sending = False
        self._late = False
        self._waiting: deque[str] = deque()
        self._size = 0
        self._filled = asyncio.Event()
        self._task = asyncio.create_task(self._work(), name="outbox")

    def put(self, message: str, cursor: int, frame: bytes | None = None) -> None:
        """Send or queue a message that brings the socket to `cursor`. Never waits. frame: the same message for a direct write, which
        is used if nothing is queued and the socket takes it.
        """
        if (
            frame is not None
            and self._write
            and not self._waiting
            and not self._sending
            and self._write(frame)
        ):
            return
        if len(self._waiting) >= MAX_MESSAGES or self._size + len(message) > MAX_CHARACTERS:
            self._waiting.clear()
            self._size = 0
            self._late = self._give_up is not None
            message = resync(cursor)
        self._waiting.append(message)
        self._size += len(message)
        self._filled.set()

    def close(self) -> None:
        """Send nothing more."""
        self._task.cancel()

    async def _work(self) -> None:
        while True:
            await self._filled.wait()
            while self._waiting:
                message = self._waiting.popleft()
                self._size -= len(message)
                if self._late and self._give_up:
                    return await self._give_up()
                self._sending = True
                await self._send(message)
                self._sending = False
            self._filled.clear()

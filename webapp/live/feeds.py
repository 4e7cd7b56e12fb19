"""One feed per watched run and server process: it reads each delta once and sends the same text to all its sockets.

The process has one Redis subscription, which passes notices to its feeds. A socket has a send queue (outbox), which is bounded, so that a
slow browser does not affect the others.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

import redis.asyncio as aioredis
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from webapp.common.run_changes import CHANNEL
from webapp.live.deltas import Delta, delta_read, resync
from webapp.live.frames import Write, frame_of

logger = logging.getLogger(__name__)

Heard = Callable[[str], None]
"""Called with a run id, or ACCESS; with an empty string after a (new) subscription: earlier notices may be lost."""
RETRY = 1.0
QUIET = 1.0
"""Seconds without a message after which the listener checks whether it is still needed."""


class RunChangeListener:
    """Listens while there are handlers; reconnects when Redis is available again."""

    def __init__(self) -> None:
        self._ears: set[Heard] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, heard: Heard) -> None:
        """Call `heard` with the run id of every notice."""
        self._ears.add(heard)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen(), name="run changes")

    def remove(self, heard: Heard) -> None:
        """Remove a handler; without handlers the subscription ends."""
        self._ears.discard(heard)
        if not self._ears and self._task:
            self._task.cancel()
            self._task = None

    async def _listen(self) -> None:
        complained = False
        while self._wanted():
            try:
                await self._subscribed()
                complained = False
            except (RedisError, OSError) as error:
                if not complained:
                    logger.warning("Redis is unavailable, feeds poll: %s", error)
                complained = True
                await asyncio.sleep(RETRY)

    async def _subscribed(self) -> None:
        client = aioredis.Redis.from_url(settings.REDIS_URL, health_check_interval=15)
        try:
            async with client.pubsub() as subscription:
                await subscription.subscribe(CHANNEL)
                while self._wanted():
                    message = await subscription.get_message(timeout=QUIET)
                    if message is None:
                        continue
                    if message["type"] == "subscribe":
                        self._tell("")
                    elif message["type"] == "message":
                        self._tell(message["data"].decode().split(" ", 1)[0])
        finally:
            await client.aclose()

    def _wanted(self) -> bool:
        """Whether this task is the active listener. redis-py can lose a cancellation that arrives while it connects, so a cancelled
        task also checks this.
        """
        task = asyncio.current_task()
        return task is not None and task is self._task and not task.cancelling()

    def _tell(self, run_id: str) -> None:
        for heard in list(self._ears):
            heard(run_id)


MAX_MESSAGES = 64
MAX_CHARACTERS = 8_000_000


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


LOOK_ANYWAY = 3.0
"""Seconds between reads without a notice."""
CLOSEST = 0.02
"""Minimum seconds between two reads."""
PER_SOCKET = 2e-5
"""Additional seconds per socket, about the cost of one message: many viewers cannot block the process."""
REMEMBERED = 20
"""Number of deltas remembered for sockets that join slightly late."""


class Feed:
    """The sockets that watch one run, and the cursor sent to all of them."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.cursor: int | None = None
        self.reads = 0
        """Number of database reads."""
        self._summary: bytes | None = None
        self._recent: deque[Delta] = deque(maxlen=REMEMBERED)
        self._sockets: set[Outbox] = set()
        self._notified = asyncio.Event()
        self._lock = asyncio.Lock()
        self._last_read = 0.0
        self._task = asyncio.create_task(self._work(), name=f"feed {run_id}")

    @property
    def empty(self) -> bool:
        """Nobody watches."""
        return not self._sockets

    def notify(self) -> None:
        """Schedule a read, because there may be new events."""
        self._notified.set()

    async def join(self, outbox: Outbox, cursor: int) -> None:
        """Bring a socket from its cursor to the feed's, then send it all further deltas. Raises DatabaseError."""
        async with self._lock:
            self._sockets.discard(outbox)
            if self.cursor is None or cursor > self.cursor:
                await self._read()
            here = self.cursor or 0
            if cursor > here:
                outbox.put(resync(here), here)
            elif cursor < here:
                for delta in await self._missed(cursor, here):
                    outbox.put(delta.text, delta.end)
            self._sockets.add(outbox)

    def leave(self, outbox: Outbox) -> None:
        """Remove a socket."""
        self._sockets.discard(outbox)

    def close(self) -> None:
        """End the feed."""
        self._task.cancel()

    async def _work(self) -> None:
        """Read after notices, and periodically without; at most every CLOSEST seconds, less often with many sockets."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._notified.wait(), LOOK_ANYWAY)
            rest = CLOSEST + PER_SOCKET * len(self._sockets)
            await asyncio.sleep(max(0.0, self._last_read + rest - time.monotonic()))
            self._notified.clear()
            try:
                async with self._lock:
                    await self._read()
            except DatabaseError as error:
                logger.warning("Feed of run %s waits for the database: %s", self.run_id, error)
                await asyncio.sleep(1.0)

    async def _read(self) -> None:
        """Read and send new events. The caller holds the lock."""
        delta = await self._delta(self.cursor, None, self._summary)
        self._last_read = time.monotonic()
        if delta is None:
            self.cursor = self.cursor or 0
            return
        self.cursor, self._summary = delta.end, delta.summary
        self._recent.append(delta)
        frame = frame_of(delta.text)
        for outbox in self._sockets:
            outbox.put(delta.text, delta.end, frame)

    async def _missed(self, cursor: int, here: int) -> list[Delta]:
        """Return the deltas from `cursor` to `here`: the remembered ones, else one read for this socket only."""
        recent = [delta for delta in self._recent if delta.start >= cursor and delta.end > delta.start]
        if recent and recent[0].start == cursor:
            return recent
        delta = await self._delta(cursor, here, None)
        return [delta] if delta else []

    async def _delta(self, cursor: int | None, until: int | None, known: bytes | None) -> Delta | None:
        self.reads += 1
        read: Callable[..., Awaitable[Delta | None]] = database_sync_to_async(
            delta_read, thread_sensitive=False
        )
        return await read(self.run_id, cursor, until, known)


class Feeds:
    """The feeds of one event loop, and the listener that wakes them."""

    def __init__(self) -> None:
        self.listener = RunChangeListener()
        self._feeds: dict[str, Feed] = {}

    def of(self, run_id: str) -> Feed:
        """Return the run's feed; starts it for the first socket."""
        if not self._feeds:
            self.listener.add(self._heard)
        if run_id not in self._feeds:
            self._feeds[run_id] = Feed(run_id)
        return self._feeds[run_id]

    def leave(self, run_id: str, outbox: Outbox) -> None:
        """Remove a socket; a feed without sockets ends."""
        feed = self._feeds.get(run_id)
        if feed is None:
            return
        feed.leave(outbox)
        if feed.empty:
            self._feeds.pop(run_id).close()
        if not self._feeds:
            self.listener.remove(self._heard)

    def _heard(self, run_id: str) -> None:
        for feed in [self._feeds.get(run_id)] if run_id else self._feeds.values():
            if feed:
                feed.notify()


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Feeds] = WeakKeyDictionary()


def feeds() -> Feeds:
    """Return the feeds of the running event loop."""
    return _by_loop.setdefault(asyncio.get_running_loop(), Feeds())

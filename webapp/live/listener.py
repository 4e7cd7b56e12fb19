"""The one Redis subscription of a server process: passes notices to the feeds of its event loop."""

import asyncio
import logging
from collections.abc import Callable

import redis.asyncio as aioredis
from django.conf import settings
from redis.exceptions import RedisError

from webapp.common.run_changes import CHANNEL

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

"""Notices that a run has changed: "run R has events up to N", published on a Redis channel for live pages.

A thread publishes with one long-lived client, at most 50 times a second per run and process; callers never wait. A notice
may be lost (Redis is away, the process ends). Feeds also poll every few seconds, so a lost notice only delays them.
"""

import logging
import os
import time
from threading import Condition, Thread

import redis
from django.conf import settings

logger = logging.getLogger(__name__)

CHANNEL = "troupe:hints"
"""Messages are "<run id> <cursor>"."""
ACCESS = "*"
"""Sent instead of a run's id: permissions have changed (webapp/live/access.py)."""
INTERVAL = 0.02
"""Minimum seconds between two notices of one run. Feeds may read less often."""
PAUSE = 1.0
"""Seconds without publishing after an error of Redis."""


class RunChangePublisher:
    """Coalesces notices by run: the first is published at once, later ones INTERVAL apart, always with the latest cursor."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pending: dict[str, int] = {}
        self._sent: dict[str, float] = {}
        self._changed = Condition()
        self._client: redis.Redis | None = None
        self._complained = False
        self.process = os.getpid()
        Thread(target=self._work, name="run changes", daemon=True).start()

    def give(self, run_id: str, cursor: int) -> None:
        """Queue a hint; returns immediately and never raises."""
        with self._changed:
            self._pending[run_id] = max(cursor, self._pending.get(run_id, 0))
            self._changed.notify()

    def _work(self) -> None:
        while True:
            for run_id, cursor in self._due():
                self._publish(run_id, cursor)

    def _due(self) -> list[tuple[str, int]]:
        """Wait for notices that are due, and return them."""
        with self._changed:
            while True:
                now = time.monotonic()
                ready = [run for run in self._pending if now - self._sent.get(run, 0.0) >= INTERVAL]
                if ready:
                    self._sent = {run: at for run, at in self._sent.items() if now - at < INTERVAL}
                    self._sent.update(dict.fromkeys(ready, now))
                    return [(run, self._pending.pop(run)) for run in ready]
                waits = [self._sent[run] + INTERVAL - now for run in self._pending]
                self._changed.wait(min(waits, default=None))

    def _publish(self, run_id: str, cursor: int) -> None:
        try:
            if self._client is None:
                self._client = redis.Redis.from_url(self._url, socket_timeout=2, socket_connect_timeout=2)
            self._client.publish(CHANNEL, f"{run_id} {cursor}")
            self._complained = False
        except (redis.RedisError, OSError) as error:
            if not self._complained:
                logger.warning("Changes of runs are not published: %s", error)
            self._complained = True
            time.sleep(PAUSE)


_publisher: RunChangePublisher | None = None


def publish_change(run_id: str, cursor: int) -> None:
    """Publish that the run has events up to `cursor`, or that its state has changed. Call it after commit.

    Takes microseconds and never raises, with or without Redis.
    """
    global _publisher
    if _publisher is None or _publisher.process != os.getpid():  # a fork has no threads of its parent
        _publisher = RunChangePublisher(settings.REDIS_URL)
    _publisher.give(run_id, cursor)

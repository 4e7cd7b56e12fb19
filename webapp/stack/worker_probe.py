"""Whether the Celery worker works: a task that beat sends leaves the time in Redis.

`python -m webapp.stack.worker_probe` exits with 0 while the last sign of life in REDIS_URL is fresh, with 1 otherwise.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import redis

KEY = "troupe:worker:alive"
STALE = 60.0
"""Seconds after which a sign of life no longer counts; beat asks for one every ten."""


def note_alive(client: redis.Redis) -> None:
    """The worker says that it works, now."""
    client.set(KEY, repr(time.time()), ex=int(STALE) * 10)


def forget_alive(url: str) -> None:
    """A worker is about to be started: the sign of life of the one before no longer counts."""
    import redis

    with suppress(redis.RedisError), redis.Redis.from_url(url, socket_timeout=2.0) as client:
        client.delete(KEY)


def seconds_since_alive(client: redis.Redis) -> float | None:
    """Age of the last sign of life; None where there is none. Raises RedisError."""
    noted = client.get(KEY)
    return max(0.0, time.time() - float(noted)) if isinstance(noted, bytes) else None


def worker_answers(url: str) -> bool:
    """Whether the last sign of life is fresh; one probe makes one connection."""
    import redis  # a third of a second, which neither `up` nor every management command should wait for

    try:
        with redis.Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=2.0) as client:
            age = seconds_since_alive(client)
    except redis.RedisError:
        return False
    return age is not None and age < STALE


if __name__ == "__main__":
    sys.exit(0 if worker_answers(os.environ["REDIS_URL"]) else 1)

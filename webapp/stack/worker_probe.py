"""Probe of the Celery worker: a periodic task writes a heartbeat to Redis.

`python -m webapp.stack.worker_probe` exits with 0 while the last heartbeat in REDIS_URL is recent, with 1 otherwise.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from webapp.stack.servers import redis_reply

if TYPE_CHECKING:
    import redis

KEY = "troupe:worker:alive"
STALE = 60.0
"""Seconds until a heartbeat expires; beat sends the task every ten."""


def note_alive(client: redis.Redis) -> None:
    """Write the worker's heartbeat."""
    client.set(KEY, repr(time.time()), ex=int(STALE) * 10)


def forget_alive(url: str) -> None:
    """Delete the previous worker's heartbeat before a worker starts."""
    if socket := _plain_socket(url):
        redis_reply(socket, f"DEL {KEY}")
        return
    import redis

    with suppress(redis.RedisError), redis.Redis.from_url(url, socket_timeout=2.0) as client:
        client.delete(KEY)


def seconds_since_alive(client: redis.Redis) -> float | None:
    """Return the age of the last heartbeat; None if there is none. Raises RedisError."""
    noted = client.get(KEY)
    return max(0.0, time.time() - float(noted)) if isinstance(noted, bytes) else None


def worker_answers(url: str) -> bool:
    """Whether the last heartbeat is recent; one probe makes one connection."""
    if socket := _plain_socket(url):
        # "$<length>\r\n<time>\r\n", or "$-1\r\n" without a heartbeat
        noted = redis_reply(socket, f"GET {KEY}").split(b"\r\n")
        return len(noted) == 3 and time.time() - float(noted[1]) < STALE
    import redis  # 0.3 s that neither `up` nor every management command should pay

    try:
        with redis.Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=2.0) as client:
            age = seconds_since_alive(client)
    except redis.RedisError:
        return False
    return age is not None and age < STALE


def _plain_socket(url: str) -> Path | None:
    """Return the socket of an address without user, password and options, such as that of the bundled Redis."""
    path = url.removeprefix("unix://")
    return None if path == url or set(path) & set("@?") else Path(path)


if __name__ == "__main__":
    sys.exit(0 if worker_answers(os.environ["REDIS_URL"]) else 1)

"""Whether the Celery worker works: a task that beat sends leaves the time in Redis."""

import time

import redis
from redis.exceptions import RedisError

KEY = "troupe:worker:alive"
EVERY = 10.0
"""Seconds between two signs of life."""
STALE = 60.0


def note_alive(client: "redis.Redis") -> None:
    """The worker says that it works, now."""
    client.set(KEY, repr(time.time()), ex=int(STALE) * 10)


def seconds_since_alive(client: "redis.Redis") -> float | None:
    """Age of the last sign of life; None where there is none. Raises RedisError."""
    noted = client.get(KEY)
    return max(0.0, time.time() - float(noted)) if isinstance(noted, bytes) else None


def worker_answers(url: str) -> bool:
    """Whether the last sign of life is fresh; one probe makes one connection."""
    try:
        with redis.Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=2.0) as client:
            age = seconds_since_alive(client)
    except RedisError:
        return False
    return age is not None and age < STALE

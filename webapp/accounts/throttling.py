"""Slow down guessing of passwords: failures are counted per name and address, in Redis."""

import hashlib

import redis
from django.conf import settings
from redis.exceptions import RedisError

FAILURES = 10
WINDOW = 300
"""Seconds that a failure counts."""


def too_many_failures(username: str, address: str) -> bool:
    """Whether no further try is taken now. Without Redis nobody is locked out."""
    try:
        with _client() as client:
            return int(client.get(_key(username, address)) or 0) >= FAILURES
    except RedisError:
        return False


def failure_note(username: str, address: str) -> None:
    """Count one; the window begins with the first."""
    try:
        with _client() as client:
            if client.incr(_key(username, address)) == 1:
                client.expire(_key(username, address), WINDOW)
    except RedisError:
        return


def _key(username: str, address: str) -> str:
    return (
        "troupe:login:"
        + hashlib.sha256(f"{username.lower()}\0{address}".encode("utf-8", "replace")).hexdigest()[:32]
    )


def _client() -> "redis.Redis":
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1.0, socket_connect_timeout=1.0)

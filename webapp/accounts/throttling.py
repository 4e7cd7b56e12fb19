"""Rate limits on guessing passwords, usernames and run ids. Failures are counted in Redis; without Redis there is no limit."""

import hashlib

import redis
from django.conf import settings
from redis.exceptions import RedisError

FAILURES = 10
"""Limit per name and address."""
ADDRESS_FAILURES = 50
"""Limit for all names from one address, which many users may share."""
WINDOW = 300
"""Seconds until a failure expires."""
GUESSES = 20
"""Limit on unknown usernames an owner tries to add, and on run ids of other users that a user tries to start a run under."""
GUESS_WINDOW = 3600
"""Seconds until a guess expires."""


def too_many_failures(username: str, address: str) -> bool:
    """Whether further logins are rejected now."""
    of_name, of_address = _counts(_key("login", username.lower(), address), _key("login", "", address))
    return of_name >= FAILURES or of_address >= ADDRESS_FAILURES


def failure_note(username: str, address: str) -> None:
    """Count a failed login, for the name at this address and for the address."""
    for name in dict.fromkeys((username.lower(), "")):
        _note(_key("login", name, address), WINDOW)


def too_many_guesses(kind: str, user_id: int | None) -> bool:
    """Whether the user must wait before the next guess of this kind ("username", "run")."""
    return _counts(_key(kind, str(user_id)))[0] >= GUESSES


def guess_note(kind: str, user_id: int | None) -> None:
    """Count a guess that revealed the existence of something the user may not see."""
    _note(_key(kind, str(user_id)), GUESS_WINDOW)


def _counts(*keys: str) -> list[int]:
    try:
        with _client() as client:
            return [int(count or 0) for count in client.mget(*keys)]
    except RedisError:
        return [0] * len(keys)


def _note(key: str, window: int) -> None:
    """Increment a counter; the window starts with the first count."""
    try:
        with _client() as client:
            if client.incr(key) == 1:
                client.expire(key, window)
    except RedisError:
        return


def _key(kind: str, *parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
    return f"troupe:{kind}:{digest}"


def _client() -> "redis.Redis":
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1.0, socket_connect_timeout=1.0)

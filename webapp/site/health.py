"""Health checks of the server and the services it depends on."""

import os
from collections.abc import Callable

import httpx
import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from redis.exceptions import RedisError

from webapp.common.ended_tasks import last_ended
from webapp.stack.home import MODEL_IN_WORK
from webapp.stack.worker_probe import STALE, seconds_since_alive

TIMEOUT = 2.0
"""Timeout of each check in seconds."""
NEEDED = ("database", "redis", "migrations", "base_model")
"""Parts without which the server is not ready: no page works without the first three, and a run launched while the base
model is created would wait for it."""
_migrated = False


def check_all() -> dict[str, str]:
    """Return "ok" or the problem, per part. Never raises."""
    return {name: check() for name, check in CHECKS.items()}


def is_ready(parts: dict[str, str]) -> bool:
    """Whether pages can be served."""
    return all(parts[name] == "ok" for name in NEEDED)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "does not answer"
    return "ok"


def _migrations() -> str:
    """Checked until no migration is missing: the migrations needed by this process do not change."""
    global _migrated
    if not _migrated:
        try:
            executor = MigrationExecutor(connection)
            missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
        except DatabaseError:
            return "unknown"
        if missing:
            return f"{missing} not applied"
        _migrated = True
    return "ok"


def _redis() -> str:
    try:
        with _redis_client() as client:
            client.ping()
    except RedisError:
        return "does not answer"
    return "ok"


def _worker() -> str:
    try:
        with _redis_client() as client:
            age, ended = seconds_since_alive(client), last_ended(client)
    except RedisError:
        return "unknown"
    if age is None:
        return "has not reported yet"
    return (ended or "ok") if age < STALE else f"last seen {age:.0f} s ago"


def _ray() -> str:
    address = os.environ.get("RAY_ADDRESS", "")
    if settings.TROUPE_LAUNCHER != "ray" or not address.startswith("http"):
        return "not used"
    token = os.environ.get("RAY_AUTH_TOKEN", "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = httpx.get(f"{address.rstrip('/')}/api/version", headers=headers, timeout=TIMEOUT)
    except httpx.HTTPError:
        return "does not answer"
    return "ok" if answer.status_code == 200 else f"answers {answer.status_code}"


def _base_model() -> str:
    return "being made" if (settings.TROUPE_HOME / MODEL_IN_WORK).exists() else "ok"


def _redis_client() -> "redis.Redis":
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "migrations": _migrations,
    "redis": _redis,
    "worker": _worker,
    "ray": _ray,
    "base_model": _base_model,
}

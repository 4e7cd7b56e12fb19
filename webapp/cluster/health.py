"""Health of the server's background work: the Celery worker, its queue, the ingest of events from runs."""

from datetime import timedelta
from typing import Any

import redis
from django.conf import settings
from django.utils import timezone

from webapp.ingest.models import Producer
from webapp.runs.models import Attempt, Run, RunState
from webapp.stack.worker_probe import STALE, seconds_since_alive

QUEUE = "celery"
"""Celery's default queue, a list in Redis."""
LATE = timedelta(seconds=30)
"""Seconds of silence after which a driver counts as late."""


def services_read() -> dict[str, Any]:
    """{"worker": {"alive", "seen_seconds", "backlog"}, "ingest": {"producers", "late", "lag_seconds"}}."""
    return {"worker": _worker(), "ingest": _ingest()}


def _worker() -> dict[str, Any]:
    """Return the age of the worker's last heartbeat (s) and the queue's length; None while Redis is unavailable."""
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=2.0, socket_connect_timeout=2.0
        ) as client:
            age, backlog = seconds_since_alive(client), client.llen(QUEUE)
    except redis.RedisError:
        return {"alive": False, "seen_seconds": None, "backlog": None}
    return {
        "alive": age is not None and age < STALE,
        "seen_seconds": None if age is None else round(age, 1),
        "backlog": backlog,
    }


def _ingest() -> dict[str, Any]:
    """Return the producers of the last minute, the number of late running runs, and the longest silence of all (s)."""
    now = timezone.now()
    running = Run.objects.filter(state__in=(RunState.RUNNING, RunState.STOPPING))
    heard = [
        attempt.heartbeat_at or attempt.created_at
        for attempt in Attempt.objects.filter(run__in=running).order_by("run", "-number").distinct("run")
    ]
    return {
        "producers": Producer.objects.filter(updated_at__gt=now - timedelta(minutes=1)).count(),
        "running": len(heard),
        "late": sum(moment < now - LATE for moment in heard),
        "lag_seconds": round((now - min(heard)).total_seconds(), 1) if heard else None,
    }

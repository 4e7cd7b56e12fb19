"""Celery tasks: sending, mutual exclusion, and tasks that exceeded their time limit or whose process died.

The database is the queue: a message only reduces the delay.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import redis
from billiard.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded, WorkerLostError
from celery import Task, current_app
from django.conf import settings
from django.db import DatabaseError, connection
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)
KEY = "troupe:worker:ended"
TOLD = 600
"""Seconds for which /readyz reports the last ended task."""
TRIES = 3
"""Retries of one task with the same arguments within TOLD seconds. Tasks without arguments are sent again by beat."""
ENDED = (SoftTimeLimitExceeded, TimeLimitExceeded, WorkerLostError)


def enqueue(task: str, *args: Any) -> None:
    """Send a task by its name. Without a broker the periodic task of the same app does the work later."""
    try:
        current_app.send_task(task, args=args)
    except (OperationalError, OSError) as error:
        log.warning(
            "%s%s waits for the next periodic task: the broker does not answer: %s", task, args, error
        )


def task_ended(
    task: "Task[Any, Any]", task_id: str, error: BaseException, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Record a task that failed in one of these ways, and retry it if beat does not.

    Celery reports a hard time limit twice: as the task's result and as the limit itself. Only the first report counts.
    """
    if not isinstance(error, ENDED):
        return
    how = "its process died" if isinstance(error, WorkerLostError) else "it exceeded its time limit"
    try:
        with _client() as client:
            if not client.set(f"{KEY}:id:{task_id}", how, ex=TOLD, nx=True):
                return
            noted = {"task": task.name, "how": how, "time": time.time()}
            client.set(KEY, json.dumps(noted), ex=TOLD)
            tried = _count(client, task.name, args) if args else TRIES
    except RedisError as problem:
        log.error("the task %s was ended (%s); it cannot be recorded in Redis: %s", task.name, how, problem)
        return
    again = tried < TRIES
    log.error(
        "the task %s%s was ended: %s; %s",
        task.name,
        tuple(args),
        how,
        "it is retried" if again or not args else f"it is not retried after {tried} attempts",
    )
    if again:
        task.apply_async(args=tuple(args), kwargs=dict(kwargs))


def last_ended(client: "redis.Redis") -> str:
    """Describe the last ended task; empty if there is no recent one. Raises RedisError."""
    noted = client.get(KEY)
    if not isinstance(noted, bytes):
        return ""
    facts = json.loads(noted)
    return f"the task {facts['task']} was ended {max(0.0, time.time() - facts['time']):.0f} s ago: {facts['how']}"


def _count(client: "redis.Redis", name: str, args: Sequence[Any]) -> int:
    """Return how often this task with these arguments has ended recently, this time included."""
    key = f"{KEY}:{name}:{json.dumps(list(args), default=str)}"
    with client.pipeline() as pipe:
        pipe.incr(key)
        pipe.expire(key, TOLD)
        return int(pipe.execute()[0])


def _client() -> "redis.Redis":
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2.0, socket_connect_timeout=2.0)


@contextmanager
def only_one(key: int) -> Iterator[bool]:
    """Yield whether this connection acquired the advisory lock `key`, held until the end of the block. Does not wait.

    A process that is killed loses its connection and releases the lock.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        (ours,) = cursor.fetchone()
    try:
        yield bool(ours)
    finally:
        if ours:
            with (
                suppress(DatabaseError),
                connection.cursor() as cursor,
            ):  # a broken connection has released the lock
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])

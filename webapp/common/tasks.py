"""The worker's sign of life."""

import redis
from celery import shared_task
from django.conf import settings

from webapp.stack.worker_probe import note_alive


@shared_task(name="common.alive", ignore_result=True)
def alive() -> None:
    """Sent by beat, carried by Redis, done by the worker: fresh only while all three work."""
    with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2.0, socket_connect_timeout=2.0) as client:
        note_alive(client)

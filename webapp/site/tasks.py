"""The worker's heartbeat."""

import redis
from celery import shared_task
from django.conf import settings

from webapp.stack.worker_probe import note_alive


@shared_task(name="common.alive", ignore_result=True)
def alive() -> None:
    """Write the heartbeat; sent by beat through Redis to the worker, so it is recent only while all three work."""
    with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2.0, socket_connect_timeout=2.0) as client:
        note_alive(client)

"""Sends Celery tasks. The database is the queue: a message only reduces the delay."""

import logging
from typing import Any

from celery import current_app
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def enqueue(task: str, *args: Any) -> None:
    """Send a task by its name. Without a broker the periodic task of the same app does the work later."""
    try:
        current_app.send_task(task, args=args)
    except (OperationalError, OSError) as error:
        log.warning(
            "%s%s waits for the next periodic task: the broker does not answer: %s", task, args, error
        )

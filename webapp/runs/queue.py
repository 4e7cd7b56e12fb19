"""Waking the worker: the database is the queue, a message only makes it quick."""

import logging

from celery import current_app
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def submit_soon(run_id: str) -> None:
    """Have a queued run submitted now. Without a broker the next reconciliation does it."""
    _send("runs.submit", run_id)


def look_soon(run_id: str) -> None:
    """Have a run under way looked after now. Without a broker the next reconciliation does it."""
    _send("runs.look_after", run_id)


def _send(task: str, run_id: str) -> None:
    try:
        current_app.send_task(task, args=[run_id])
    except (OperationalError, OSError) as error:
        log.warning("run %s waits for the next reconciliation: the broker does not answer: %s", run_id, error)

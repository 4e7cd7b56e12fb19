"""Celery tasks of runs: short, idempotent, safe to run twice."""

from threading import Lock

from celery import shared_task

from webapp.runs.reconciliation import runs_reconcile_now
from webapp.runs.submission import run_submit_now

_looking = Lock()
"""Held while this process looks after all runs: where Ray is slow to answer, the worker's threads must not pile up here."""


@shared_task(name="runs.submit", soft_time_limit=60, time_limit=90)
def run_submit(run_id: str) -> None:
    """Submit one queued run."""
    run_submit_now(run_id)


@shared_task(name="runs.reconcile", soft_time_limit=120, time_limit=150)
def runs_reconcile() -> None:
    """Look after all runs, unless this process is at it."""
    if _looking.acquire(blocking=False):
        try:
            runs_reconcile_now()
        finally:
            _looking.release()

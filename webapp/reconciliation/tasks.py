"""Celery tasks of runs: short, idempotent, safe to run twice."""

from celery import shared_task

from webapp.common.task_queue import only_one
from webapp.reconciliation.services import run_look_after, runs_reconcile_now
from webapp.scheduling.submission import run_submit_now

LOOKING_LOCK = 7_461_002
"""Key of the advisory lock of reconciliation: processes must not accumulate here when Ray is slow."""


@shared_task(name="runs.submit", soft_time_limit=60, time_limit=90)
def run_submit(run_id: str) -> None:
    """Submit one queued run."""
    run_submit_now(run_id)


@shared_task(name="runs.reconcile", soft_time_limit=120, time_limit=150)
def runs_reconcile() -> None:
    """Check all runs, unless another process does."""
    with only_one(LOOKING_LOCK) as ours:
        if ours:
            runs_reconcile_now()


@shared_task(name="runs.look_after", soft_time_limit=60, time_limit=90)
def run_look(run_id: str) -> None:
    """Check one run."""
    run_look_after(run_id)

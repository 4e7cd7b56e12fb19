"""Requests to the worker about one run."""

from webapp.common.task_queue import enqueue


def submit_soon(run_id: str) -> None:
    """Submit a queued run now. Without a broker the next reconciliation does it."""
    enqueue("runs.submit", run_id)


def look_soon(run_id: str) -> None:
    """Reconcile an active run now. Without a broker the next reconciliation does it."""
    enqueue("runs.look_after", run_id)

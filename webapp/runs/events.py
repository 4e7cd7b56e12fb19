"""Events of runs, sent within the transaction of what happens to a run."""

from typing import Any

from django.dispatch import Signal

from webapp.runs.models import Run

EVENTS: dict[str, str] = {
    "run.launched": "a run was queued",
    "run.started": "a run started or resumed training",
    "run.paused": "a run was paused",
    "run.finished": "a run finished",
    "run.stopped": "a run was stopped",
    "run.failed": "a run failed",
    "finding.opened": "a health rule found something",
    "checkpoint.written": "a run wrote a checkpoint",
}
OF_STATE = {
    "running": "run.started",
    "paused": "run.paused",
    "finished": "run.finished",
    "stopped": "run.stopped",
    "failed": "run.failed",
}
"""State of a run -> event."""
run_event = Signal()
"""Sent with `run`, `event` (a name of EVENTS) and `facts`, the part of the payload that is not about the run itself."""


def event_send(event: str, run: Run, **facts: dict[str, Any]) -> None:
    """Send an event of a run to the receivers of `run_event`."""
    run_event.send(sender=Run, run=run, event=event, facts=facts)

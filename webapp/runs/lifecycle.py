"""The life of a run. Every change of a run's state, or of the reason that its owner reads, is written here.

A change of state is checked against the table of transitions (webapp/runs/states.py) and saved. It is sent as an event within the
transaction, and published to live pages after commit. Callers hold the run's row lock (`run_locked`).
"""

import logging
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.dispatch import Signal
from django.utils import timezone

from webapp.common.compiled import CompiledQuery
from webapp.common.run_changes import publish_change
from webapp.common.task_queue import enqueue
from webapp.runs.models import INACTIVE_STATES, Run, RunState
from webapp.runs.states import check
from workers.telemetry.faults import Fault, fault_in

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


def submit_soon(run_id: str) -> None:
    """Submit a queued run now. Without a broker the next reconciliation does it."""
    enqueue("runs.submit", run_id)


def look_soon(run_id: str) -> None:
    """Reconcile an active run now. Without a broker the next reconciliation does it."""
    enqueue("runs.look_after", run_id)


log = logging.getLogger(__name__)


def run_locked(run_id: str) -> Run | None:
    """The run under its row lock, with its config deferred, or None if there is no such run. Requires a transaction."""
    return _LOCKED.first(run_id)


def runs_locked(*, skip_locked: bool = False) -> QuerySet[Run]:
    """Runs under their row locks; `skip_locked` leaves out those that another transaction has locked. Rows that refer to a
    run can still be inserted.
    """
    return Run.objects.select_for_update(no_key=True, of=("self",), skip_locked=skip_locked)


_LOCKED = CompiledQuery(lambda run_id: runs_locked().defer("config", "facts").filter(pk=run_id))


def run_announce(run: Run) -> None:
    """Publish after commit that the run has changed."""
    transaction.on_commit(partial(publish_change, run.pk, run.event_count))


def run_add(run: Run) -> Run:
    """Store a new run and announce its first state."""
    run.save(force_insert=True)
    _send(run, "")
    return run


def run_move(run: Run, state: RunState, reason: str | Fault = "", **fields: Any) -> None:
    """Move a run to `state`, set `fields`, and save it with everything that the caller has changed.

    The remedy in `reason` is stored apart. `ended_at` follows the state. Raises TransitionRefused if `state` may not follow.
    """
    before = run.state
    check(run, state)
    fault = _fault(reason)
    run.state, run.reason, run.remedy = state, fault.cause, fault.remedy
    run.ended_at = timezone.now() if state in INACTIVE_STATES else None
    for name, value in fields.items():
        setattr(run, name, value)
    run.save()
    _send(run, before)


def run_reason_set(run: Run, reason: str | Fault) -> None:
    """Store what the run waits for, and the remedy in it. An unchanged reason is not written again."""
    fault = _fault(reason)
    if (run.reason, run.remedy) == (fault.cause, fault.remedy):
        return
    log.info("run %s: %s", run.pk, fault)
    run.reason, run.remedy = fault.cause, fault.remedy
    run.save(update_fields=["reason", "remedy"])
    run_announce(run)


def run_fault(run: Run) -> Fault:
    """The reason and the remedy that are stored."""
    return Fault(run.reason, run.remedy)


def _fault(reason: str | Fault) -> Fault:
    return reason if isinstance(reason, Fault) else fault_in(reason)


def _send(run: Run, before: str) -> None:
    if run.state == RunState.QUEUED and not before:
        event_send("run.launched", run)
    elif run.state in OF_STATE and run.state != before:
        event_send(OF_STATE[run.state], run)
    run_announce(run)

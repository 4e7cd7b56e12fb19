"""The end of attempts, and automatic restarts. Callers hold the run's row lock and save the run."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Max
from django.utils import timezone

from webapp.checkpoints.damage import damage_note
from webapp.runs.costs import first_iteration
from webapp.runs.lifecycle import run_move
from webapp.runs.models import Attempt, Run, RunState
from webapp.runs.states import STATE_AFTER
from workers.telemetry.faults import Fault, fault_in

STARTS_AGAIN = "The run starts again from the last checkpoint, without your help."


def attempt_end(attempt: Attempt, how: str, reason: str) -> None:
    """Record how an attempt ended (finished, stopped, paused, failed, lost)."""
    attempt.state, attempt.ended_as, attempt.reason = Attempt.State.ENDED, how, fault_in(reason).cause
    attempt.ended_at = timezone.now()
    attempt.save()


def attempt_lost(run: Run, attempt: Attempt, fault: Fault, *, again: bool) -> None:
    """Handle a failed or dead attempt. With `again` the run is queued for another one, up to run.max_attempts.

    A run with a pending stop or pause stops or pauses instead. Sets the run's state and reason.
    """
    attempt_end(attempt, "lost" if again else "failed", fault.cause)
    if run.stop_requested:
        run_move(
            run,
            STATE_AFTER[run.stop_requested],
            Fault(f"Ended after a request to {run.stop_requested}: {fault.cause}", fault.remedy),
            stop_requested="",
        )
    elif again and starts_again(run):
        run_move(
            run, RunState.QUEUED, Fault(f"Attempt {attempt.number} was lost: {fault.cause}", STARTS_AGAIN)
        )
    else:
        lost = losses_in_a_row(run)
        cause = fault.cause if lost < 2 else f"{fault.cause.rstrip('.')} (after {lost} attempts)."
        run_move(run, RunState.FAILED, Fault(cause, fault.remedy))


def starts_again(run: Run, losses: int = 0) -> bool:
    """Whether a lost attempt is followed by another one; `losses` are expected in addition to the recorded ones."""
    return 1 < int(run.config["run"]["max_attempts"]) > losses_in_a_row(run) + losses


def losses_in_a_row(run: Run) -> int:
    """Return the number of consecutive lost attempts without progress: since an attempt ended normally, wrote a checkpoint
    beyond its start, or a user resumed the run.
    """
    reached = dict(run.checkpoints.values_list("attempt").annotate(Max("iteration")))
    lost = 0
    for attempt in run.attempts.filter(number__gt=run.losses_from).order_by("-number"):
        if attempt.ended_as not in ("lost", "failed"):
            break
        if reached.get(attempt.number, 0) > first_iteration(run, attempt):
            break
        lost += 1
    return lost


def origin_apply(run: Run, attempt: Attempt, facts: Mapping[str, Any]) -> None:
    """Record the driver's report of its start: a different checkpoint of the run, or a damaged one of the parent."""
    path = f"checkpoints/{facts.get('resumed_from')}"
    checkpoint = run.checkpoints.filter(path=path).first()
    if checkpoint is not None and attempt.resumed_from not in ("", path):
        attempt.resumed_from, attempt.resumed_iteration = path, checkpoint.iteration
        attempt.save(update_fields=["resumed_from", "resumed_iteration"])
    damage = facts.get("origin_damaged")
    if damage and isinstance(damage, str) and run.parent is not None:
        damage_note(run.parent, run.parent_checkpoint, damage)

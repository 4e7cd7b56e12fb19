"""Attempts: the reports of their drivers, their end, automatic restarts, and what a stopping run waits for.

Callers hold the run's row lock and save the run.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from webapp.checkpoints.services import checkpoint_latest, damage_note
from webapp.metrics.models import Series
from webapp.provenance.services import provenance_report
from webapp.runs.costs import first_iteration
from webapp.runs.lifecycle import run_fault, run_move, run_reason_set, submit_soon
from webapp.runs.models import Attempt, Run, RunState
from webapp.runs.selectors import facts_add, facts_of
from webapp.runs.states import STATE_AFTER, allowed
from workers.launchers.launcher import STOP_SECONDS
from workers.telemetry.events import StatusEvent
from workers.telemetry.faults import LONGEST, Fault, fault_in, sentence

ENDING = f"Ending now: the driver writes a checkpoint of the last completed iteration, and is killed after {STOP_SECONDS} s at the latest"
ENDING_MEMBER = "Ending now: its process trains other runs, so this run ends with the current iteration"
WAITS = "waits"
"""Fact of a run: what it waits for that outside programs do."""
DOING = {"stop": "Stopping", "pause": "Pausing"}
FINAL = {"finished": RunState.FINISHED, "stopped": RunState.STOPPED, "paused": RunState.PAUSED}
"""State of a run after its driver reports the word."""
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


def _origin_apply(run: Run, attempt: Attempt, facts: Mapping[str, Any]) -> None:
    """Record the driver's report of its start: a different checkpoint of the run, or a damaged one of the parent."""
    path = f"checkpoints/{facts.get('resumed_from')}"
    checkpoint = run.checkpoints.filter(path=path).first()
    if checkpoint is not None and attempt.resumed_from not in ("", path):
        attempt.resumed_from, attempt.resumed_iteration = path, checkpoint.iteration
        attempt.save(update_fields=["resumed_from", "resumed_iteration"])
    damage = facts.get("origin_damaged")
    if damage and isinstance(damage, str) and run.parent is not None:
        damage_note(run.parent, run.parent_checkpoint, damage)


def command_for(run: Run, attempt: Attempt, *, newest: bool) -> str | None:
    """Return the command for the driver of this attempt: "exit" after it was superseded or has ended, "stop" or "pause" if requested.

    An attempt that ended by its driver's own report needs no command; one that was ended here (stopped before it started,
    given up) must exit. newest: whether the run has no later attempt.
    """
    if newest and attempt.ended_as == "stopped" and run.is_custom:
        return "stop"  # for the other programs of the run
    if attempt.state == Attempt.State.ENDED or not newest:
        return "exit"
    return run.stop_requested or None


def is_at_work(attempt: Attempt) -> bool:
    """Whether its workers have started and it has not ended."""
    return attempt.started_at is not None and attempt.state != Attempt.State.ENDED


def status_apply(run: Run, attempt: Attempt, event: StatusEvent) -> None:
    """Advance the run by its driver's report. Reports of an old attempt, or late ones, change nothing."""
    newest = not run.attempts.filter(number__gt=attempt.number).exists()
    if not newest or attempt.state == Attempt.State.ENDED:
        _late_apply(run, event, newest=newest)
        return
    fault = Fault(sentence(event.message), sentence(event.remedy))
    if event.state in ("starting", "running") and event.facts:
        facts = dict(event.facts)
        if "provenance" in facts:
            provenance_report(run, attempt.number, facts.pop("provenance"))
        facts_add(run, attempt.number, facts)
        _origin_apply(run, attempt, event.facts)
    if event.state != "starting" and (event.state != "failed" or attempt.started_at):
        run.iteration = event.iteration
    if event.state == "failed":
        attempt_lost(run, attempt, fault, again=event.facts.get("retry") is True)
    elif event.state in FINAL:
        attempt_end(attempt, event.state, fault.cause)
        _finish(run, event.state, fault)
    elif event.state == "running":
        _started(run, attempt)
        _waiting_apply(run, attempt, event.message[:LONGEST])
    elif event.state == "starting" and run.state in (RunState.QUEUED, RunState.STARTING):
        run_reason_set(run, fault)  # what it waits for, for example a base model that is made
        facts_add(run, attempt.number, {"starting": event.message[:LONGEST]})
    run.save()
    if run.state == RunState.QUEUED:
        transaction.on_commit(partial(submit_soon, run.pk))


def _waiting_apply(run: Run, attempt: Attempt, waits: str) -> None:
    """Record what a running attempt waits for that outside programs do; empty if it does not wait."""
    if waits != facts_of(run).get(WAITS, ""):
        facts_add(run, attempt.number, {WAITS: waits})
        if run.state == RunState.RUNNING:
            run_reason_set(run, waits)


def _late_apply(run: Run, event: StatusEvent, *, newest: bool) -> None:
    """Note the progress of a custom program's run that has ended: a repeated import adds to it."""
    if newest and run.is_custom and event.iteration > run.iteration:
        run.iteration = event.iteration
        run.save(update_fields=["iteration"])


def _started(run: Run, attempt: Attempt) -> None:
    now = timezone.now()
    attempt.started_at = attempt.started_at or now
    attempt.state = Attempt.State.LIVE
    attempt.save(update_fields=["started_at", "state"])
    run.started_at = run.started_at or now
    _submission_noted(run)
    if run.state == RunState.STARTING:  # a stop request may have come first
        run_move(run, RunState.RUNNING)


def _finish(run: Run, word: str, reason: Fault) -> None:
    """End the run by the driver's last report. A driver ended by a signal reports "stopped"; the requested end takes precedence."""
    if word != "finished" and run.stop_requested:
        word = STATE_AFTER[run.stop_requested]
    _submission_noted(run)
    if allowed(run, FINAL[word]):
        run_move(run, FINAL[word], reason, stop_requested="")


def _submission_noted(run: Run) -> None:
    """Record the submission of a reporting driver, in case the submitting process ended before it could."""
    if run.state == RunState.QUEUED:
        run_move(run, RunState.STARTING, run_fault(run))


def stopping_words(run: Run, attempt: Attempt | None) -> str:
    """Return e.g. "Pausing: completing iteration 2 (the last one took 105 s); requested 40 s ago; saved up to iteration 1"."""
    doing = DOING.get(run.stop_requested, "Stopping")
    asked = (timezone.now() - run.stop_requested_at).total_seconds() if run.stop_requested_at else 0.0
    if attempt is None or attempt.started_at is None:
        return f"{doing}: the workers are still starting; requested {spelled(asked)} ago"
    return f"{doing}: {_under_way(run)}; requested {spelled(asked)} ago; {saved_words(run)}"


def _under_way(run: Run) -> str:
    if waits := facts_of(run).get(WAITS):
        return f"the run {waits}; open episodes are cancelled"
    if run.iterations and run.iteration >= run.iterations:
        return "completing the last evaluation and checkpoint"
    took = Series.objects.filter(run=run, key="time/iteration").values_list("last_value", flat=True).first()
    usual = f" (the last one took {spelled(took)})" if took and took > 0 else ""
    return f"completing iteration {run.iteration + 1}{usual}"


def saved_words(run: Run) -> str:
    """Return the iteration from which the run can be resumed."""
    latest = checkpoint_latest(run)
    return f"saved up to iteration {latest.iteration}" if latest else "no checkpoint has been written"


def spelled(seconds: float) -> str:
    """Return a readable duration: "0 s", "40 s", "12 min", "3.5 h"."""
    if seconds < 10:
        return f"{round(seconds)} s"
    if seconds < 600:
        return f"{round(seconds / 5) * 5} s"
    return f"{round(seconds / 60)} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

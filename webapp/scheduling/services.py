"""Changes to runs: created, stopped, resumed by users; advanced by their drivers' reports.

Every change of state happens under the run's row lock.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from training_core.config.files import apply_overrides, no_preset, preset_names
from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, can_edit, require_edit
from webapp.artifacts.services import references_resolve, uses_note
from webapp.checkpoints.damage import require_whole
from webapp.checkpoints.selectors import checkpoint_named
from webapp.provenance.reported import provenance_read
from webapp.provenance.services import LAUNCH, provenance_report, provenance_store
from webapp.runs import states
from webapp.runs.facts import facts_add
from webapp.runs.families import family_of
from webapp.runs.lifecycle import run_add, run_announce, run_fault, run_move, run_reason_set, runs_locked
from webapp.runs.models import Attempt, Run, RunSource, RunState
from webapp.runs.permitted import check_storable, parse_permitted_for
from webapp.runs.queue import look_soon, submit_soon
from webapp.scheduling.attempts import attempt_end, attempt_lost, origin_apply
from webapp.scheduling.devices import check_gpus
from webapp.scheduling.seed_groups import is_shared_now
from webapp.scheduling.stopping import ENDING, ENDING_MEMBER, stopping_words
from workers.telemetry.events import StatusEvent
from workers.telemetry.faults import LONGEST, Fault, fault_in, sentence

FINAL = {"finished": RunState.FINISHED, "stopped": RunState.STOPPED, "paused": RunState.PAUSED}

MOST_ITERATIONS = 2**31 - 1
"""Maximum number of iterations that events can count."""


@transaction.atomic
def run_create(
    user: Person,
    project: Project,
    tree: Mapping[str, Any],
    preset: str = "",
    overrides: Mapping[str, Any] | None = None,
    name: str = "",
    tags: Iterable[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Run:
    """Create a queued run from a config tree with overrides; its submission follows on commit. `provenance`: what launched it
    (webapp/provenance/reported.py).

    Raises ConfigError with one message per field path, PermissionDenied for users who cannot launch here.
    """
    if not isinstance(user, User) or not can_edit(user, project):
        raise PermissionDenied(
            f"you cannot launch in the project {project.slug}; ask an owner for the editor level"
        )
    if preset and preset not in preset_names():
        raise ConfigError({"preset": no_preset(preset)})
    whole, used = references_resolve(user, project, apply_overrides(tree, overrides or {}))
    config = parse_permitted_for(user, whole)
    if config.run.iterations > MOST_ITERATIONS:
        raise ConfigError({"run.iterations": f"at most {MOST_ITERATIONS}"})
    check_gpus(config)
    resolved = config.model_dump(mode="json")
    check_storable(resolved)
    launched = provenance_read(provenance or {})
    run = Run(
        project=project,
        owner=user,
        name=(name or config.run.name or preset or config.environment.type)[:120],
        preset=preset,
        tags=sorted({str(tag)[:60] for tag in (*config.run.tags, *tags)}),
        config=resolved,
        family=family_of(resolved),
        iterations=config.run.iterations,
    )
    run_add(run)
    provenance_store(run, LAUNCH, launched)
    uses_note(run, used)
    audit_note(user, project, "run.launch", run.pk, name=run.name)
    transaction.on_commit(partial(submit_soon, run.pk))
    return run


def run_stop(user: Person, run: Run) -> Run:
    """Stop a run, with a checkpoint if it is running. Raises PermissionDenied, TransitionRefused."""
    return _end(user, run, "stop")


def run_pause(user: Person, run: Run) -> Run:
    """Write a checkpoint, end the run and release its devices, for a later resume. Raises PermissionDenied, TransitionRefused."""
    _ours(run, "paused")
    return _end(user, run, "pause")


def run_resume(user: Person, run: Run, checkpoint: str = "") -> Run:
    """Queue a new attempt from the last checkpoint, or from a named one: last, best or an iteration.

    Raises PermissionDenied, TransitionRefused (also for a damaged checkpoint), ConfigError, Http404 (unknown checkpoint).
    """
    chosen = checkpoint_named(user, run.pk, checkpoint) if checkpoint else None
    if chosen is not None:
        require_whole(chosen)  # before the transaction, whose rollback would undo the mark
    return _resumed(user, run, chosen.path if chosen else "")


@transaction.atomic
def _resumed(user: Person, run: Run, resume_from: str) -> Run:
    run = _locked(user, run)
    _ours(run, "resumed")
    if (
        run.state not in states.RESUMABLE
    ):  # the table also returns active runs to queued, after a lost attempt
        raise states.TransitionRefused(f"a run that is {run.state} cannot be resumed")
    last_attempt = run.attempts.aggregate(last=Max("number"))["last"] or 0
    run_move(
        run,
        RunState.QUEUED,
        stop_requested="",
        end_requested_at=None,
        losses_from=last_attempt,
        resume_from=resume_from,
    )
    transaction.on_commit(partial(submit_soon, run.pk))
    return run


@transaction.atomic
def run_end_now(user: Person, run: Run) -> Run:
    """End a stopping or pausing run immediately: the work of its iteration is lost; its driver still writes a checkpoint of
    the last completed iteration if possible. Raises PermissionDenied, TransitionRefused.
    """
    run = _locked(user, run)
    _ours(run, "ended")
    if run.state != RunState.STOPPING:
        raise states.TransitionRefused(
            f"a run that is {run.state} cannot be ended now: stop or pause it first"
        )
    if run.end_requested_at is None:
        run.end_requested_at = timezone.now()
        run.save(update_fields=["end_requested_at"])
        attempt = run.attempts.order_by("-number").first()
        run_reason_set(run, ENDING_MEMBER if attempt and is_shared_now(attempt) else ENDING)
    transaction.on_commit(partial(look_soon, run.pk))
    return run


def _ours(run: Run, what: str) -> None:
    """Raises TransitionRefused for actions that are only possible for runs launched by the server."""
    if run.source == RunSource.CLIENT:
        raise states.TransitionRefused(
            f"a run of a custom program cannot be {what} from here: end the program, or start it again"
        )


@transaction.atomic
def _end(user: Person, run: Run, how: str) -> Run:
    """End a queued run immediately; request a started one to end. A stop replaces a pending pause."""
    run = _locked(user, run)
    state = states.STATE_AFTER[how]
    if run.state == RunState.STOPPING and (how == "pause" or run.stop_requested == "stop"):
        return run
    if run.state == RunState.QUEUED:
        run_move(run, state, f"{state} before it started")
        for attempt in run.attempts.exclude(state=Attempt.State.ENDED):
            attempt_end(attempt, state, "")
    elif run.state == RunState.STOPPING:
        run.stop_requested = how
        run.save()
        run_announce(run)
    else:
        states.check(run, RunState.STOPPING, state)
        run.stop_requested, run.stop_requested_at = how, timezone.now()
        launched = run.source != RunSource.CLIENT
        reason = stopping_words(run, run.attempts.order_by("-number").first()) if launched else run_fault(run)
        run_move(run, RunState.STOPPING, reason, end_requested_at=None)
    return run


def _locked(user: Person, run: Run) -> Run:
    require_edit(user, run.project)
    return runs_locked().select_related("project", "owner").get(pk=run.pk)


# What drivers report; called by ingest under the run's lock.


def command_for(run: Run, attempt: Attempt, *, newest: bool) -> str | None:
    """Return the command for the driver of this attempt: "exit" after it was superseded or has ended, "stop" or "pause" if requested.

    An attempt that ended by its driver's own report needs no command; one that was ended here (stopped before it started,
    given up) must exit. newest: whether the run has no later attempt.
    """
    if newest and attempt.ended_as == "stopped" and run.source == RunSource.CLIENT:
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
    fault = fault_in(event.message)
    if event.state in ("starting", "running") and event.facts:
        facts = dict(event.facts)
        if "provenance" in facts:
            provenance_report(run, attempt.number, facts.pop("provenance"))
        facts_add(run, attempt.number, facts)
        origin_apply(run, attempt, event.facts)
    if event.state != "starting" and (event.state != "failed" or attempt.started_at):
        run.iteration = event.iteration
    if event.state == "failed":
        stated = Fault(sentence(event.message), sentence(event.remedy)) if event.remedy else fault
        attempt_lost(run, attempt, stated, again=event.facts.get("retry") is True)
    elif event.state in FINAL:
        attempt_end(attempt, event.state, fault.cause)
        _finish(run, event.state, fault)
    elif event.state == "running":
        _started(run, attempt)
    elif event.state == "starting" and run.state in (RunState.QUEUED, RunState.STARTING):
        run_reason_set(run, fault)  # what it waits for, for example a base model that is made
        facts_add(run, attempt.number, {"starting": event.message[:LONGEST]})
    run.save()
    if run.state == RunState.QUEUED:
        transaction.on_commit(partial(submit_soon, run.pk))


def _late_apply(run: Run, event: StatusEvent, *, newest: bool) -> None:
    """Note the progress of a custom program's run that has ended: a repeated import adds to it."""
    if newest and run.source == RunSource.CLIENT and event.iteration > run.iteration:
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
        word = states.STATE_AFTER[run.stop_requested]
    _submission_noted(run)
    if states.allowed(run, FINAL[word]):
        run_move(run, FINAL[word], reason, stop_requested="")


def _submission_noted(run: Run) -> None:
    """Record the submission of a reporting driver, in case the submitting process ended before it could."""
    if run.state == RunState.QUEUED:
        run_move(run, RunState.STARTING, run_fault(run))

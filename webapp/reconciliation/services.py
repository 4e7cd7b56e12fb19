"""Once every few seconds: what the database believes against what the launcher says.

No answer is "unknown", never a failure. An attempt is given up only on proof: its job has ended, or the launcher does
not know it any more and nothing has been heard of it for DEATH_SECONDS.
"""

import logging
from datetime import datetime
from functools import lru_cache

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from webapp.ingest.spool import spool_store
from webapp.quotas.enforcement import storage_held
from webapp.reconciliation.cleanup import jobs_end, tokens_end
from webapp.runs.facts import facts_of
from webapp.runs.lifecycle import run_move, run_reason_set, runs_locked
from webapp.runs.models import ACTIVE_STATES, Attempt, LogLine, Run, RunSource, RunState
from webapp.runs.states import STATE_AFTER
from webapp.scheduling.attempts import attempt_end, attempt_lost
from webapp.scheduling.client_runs import client_run_look_after
from webapp.scheduling.stopping import ENDING, saved_words, spelled, stopping_words
from webapp.scheduling.submission import run_submit_now
from workers.launchers.bundled_ray import cluster_has_ended
from workers.launchers.launcher import JobState, JobStatus, Launcher, LauncherFailure
from workers.launchers.registry import make_launcher
from workers.storage.run_folder import RunFolder
from workers.telemetry.reasons import plain, printed_failure

log = logging.getLogger(__name__)
DEATH_SECONDS = 90
"""A driver was seen to outlive its Ray head by a minute: only after this silence a missing job counts as dead."""
SILENCE_SECONDS = 30
"""A heartbeat older than this is told to the owner."""
START_SECONDS = 120
"""So long a driver may take from its start to its first word before that is told to the owner."""
UNDER_WAY = (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)
OVER = (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


@lru_cache(maxsize=1)
def process_start() -> datetime:
    """When this process first looked: ages count from no earlier, so that an outage of ours is nobody's death."""
    return timezone.now()


def runs_reconcile_now() -> None:
    """Look after every run that is queued or under way, one at a time; one that fails does not hold up the others."""
    process_start()
    for run_id, state, source in (
        Run.objects.filter(state__in=ACTIVE_STATES)
        .order_by("-priority", "created_at")
        .values_list("pk", "state", "source")
    ):
        try:
            if source == RunSource.CLIENT:
                client_run_look_after(run_id, process_start())
            elif state == RunState.QUEUED:
                run_submit_now(run_id)
            else:
                run_look_after(run_id)
        except Exception:
            log.exception("run %s could not be reconciled", run_id)
    tokens_end()
    try:
        jobs_end(make_launcher(settings.TROUPE_LAUNCHER))
    except LauncherFailure as error:
        log.warning("jobs of ended attempts were not looked at: %s", error)


def run_look_after(run_id: str) -> None:
    """Compare one run that is under way with what the launcher says of it."""
    run = Run.objects.get(pk=run_id)
    attempt = run.attempts.order_by("-number").first()
    if attempt is None or run.state not in UNDER_WAY:
        return
    launcher = make_launcher(settings.TROUPE_LAUNCHER)
    status = launcher.status(attempt.submission_id)
    if status.state is JobState.UNKNOWN:
        _unreachable(attempt, status)
    elif status.state in OVER or (status.state is JobState.MISSING and _is_dead(attempt)):
        _over(run, attempt, launcher, status)
    else:
        _alive(run, attempt, launcher, status)


def _age(attempt: Attempt) -> float:
    """Seconds since anything was heard of it, or could have been."""
    heard = attempt.heartbeat_at or attempt.created_at
    return (timezone.now() - max(heard, process_start())).total_seconds()


def _is_dead(attempt: Attempt) -> bool:
    """Of an attempt whose job the launcher does not know: whether its driver is known to have ended."""
    return cluster_has_ended(attempt.cluster) or _age(attempt) > DEATH_SECONDS


def _unreachable(attempt: Attempt, status: JobStatus) -> None:
    if attempt.unreachable_since is None and _age(attempt) > SILENCE_SECONDS:
        Attempt.objects.filter(pk=attempt.pk).update(unreachable_since=timezone.now())
        _say(attempt.run_id, f"state unknown: {status.message or 'Ray does not answer'}")


def _alive(run: Run, attempt: Attempt, launcher: Launcher, status: JobStatus) -> None:
    Attempt.objects.filter(pk=attempt.pk).exclude(unreachable_since=None).update(unreachable_since=None)
    if run.state == RunState.STOPPING:
        _stopping(run, attempt, launcher, status)
        return
    quiet = _age(attempt)
    if status.state is JobState.PENDING:
        _say(run.pk, "submitted; Ray has not started it yet" if quiet > 10 else run.reason)
    elif status.state is JobState.MISSING and quiet > SILENCE_SECONDS:
        _say(run.pk, _missing_words(quiet, "the next attempt starts from the last checkpoint"))
    elif attempt.heartbeat_at is None and quiet > START_SECONDS:
        _say(
            run.pk,
            f"its job is running; its driver has started for {spelled(quiet)} without a word: see the log",
        )
    elif attempt.heartbeat_at is not None and quiet > SILENCE_SECONDS:
        _say(run.pk, f"its job is {status.state}, but its driver has not been heard for {spelled(quiet)}")
    elif run.state in (RunState.STARTING, RunState.RUNNING):
        doing = facts_of(run).get("starting", "") if run.state == RunState.STARTING else ""
        _say(run.pk, storage_held(run.project_id) or doing)


def _missing_words(quiet: float, follows: str) -> str:
    left = max(DEATH_SECONDS - quiet, 0.0)
    return (
        f"Ray does not know its job (was the cluster restarted?) and its driver has been silent for {spelled(quiet)}; "
        f"if nothing is heard for another {spelled(left)}, {follows}"
    )


def _stopping(run: Run, attempt: Attempt, launcher: Launcher, status: JobStatus) -> None:
    """A driver that is heard completes its iteration, however long that is, unless a person has asked to end it at once.

    One that is silent is stopped from outside.
    """
    asked = run.stop_requested_at or run.created_at
    silent = min(_age(attempt), (timezone.now() - asked).total_seconds())
    if run.end_requested_at is None and silent <= SILENCE_SECONDS:
        _say(run.pk, stopping_words(run, attempt))
        return
    if status.state is JobState.MISSING:
        _say(run.pk, _missing_words(_age(attempt), "it counts as ended"))
        return
    try:
        launcher.stop(attempt.submission_id)
    except LauncherFailure as error:
        _say(run.pk, str(error))
        return
    heard = f"its driver has not been heard for {spelled(_age(attempt))}: it is ended from outside"
    _say(run.pk, ENDING if run.end_requested_at else heard)


def _over(run: Run, attempt: Attempt, launcher: Launcher, status: JobStatus) -> None:
    """The job has ended. What its driver could not deliver is read from its folder first: it may tell the end itself."""
    whole = spool_store(run.pk, RunFolder(settings.TROUPE_HOME / "runs" / run.pk).spool(attempt.number))
    held = "" if whole else storage_held(run.project_id)
    if (
        held and not run.stop_requested
    ):  # its last word may be among what waits: whether it finished is not known yet
        _say(run.pk, f"its job has ended; {held}")
        return
    tail = launcher.logs(attempt.submission_id)
    with transaction.atomic():
        run = runs_locked().get(pk=run.pk)
        attempt.refresh_from_db()
        if attempt.state == Attempt.State.ENDED or run.state not in ACTIVE_STATES:
            return
        if tail:
            _keep_tail(run, attempt, tail)
        if run.stop_requested and status.state is not JobState.MISSING:
            how = (
                f"{_how_ended(run, status)}; what came after the last checkpoint is lost ({saved_words(run)})"
            )
            state = STATE_AFTER[run.stop_requested]
            attempt_end(attempt, state, how)
            run_move(run, state, how, stop_requested="")
        else:
            attempt_lost(run, attempt, printed_failure(tail) or _how(status, attempt), again=True)
    if run.state == RunState.QUEUED:
        run_submit_now(run.pk)


def _how_ended(run: Run, status: JobStatus) -> str:
    if status.state is not JobState.STOPPED:
        return _how(status)
    return "ended at once, as asked" if run.end_requested_at else "ended from outside: its driver was silent"


def _how(status: JobStatus, attempt: Attempt | None = None) -> str:
    if status.state is JobState.MISSING and attempt is not None and cluster_has_ended(attempt.cluster):
        return "Ray was restarted, and its driver had ended with it"
    if status.state is JobState.MISSING:
        return f"its job is gone and its driver was silent for {DEATH_SECONDS} s"
    return f"its job {status.state} without a last word{': ' + status.message if status.message else ''}"


def _keep_tail(run: Run, attempt: Attempt, tail: str) -> None:
    """The job's own last output: often the only trace of why it died."""
    run.event_count += 1
    LogLine.objects.create(
        run=run,
        attempt=attempt.number,
        cursor=run.event_count,
        time=timezone.now(),
        level="error",
        source="job output",
        message=plain(tail)[-20000:],
    )


@transaction.atomic
def _say(run_id: str, reason: str) -> None:
    run = runs_locked().get(pk=run_id)
    if run.state in ACTIVE_STATES:
        run_reason_set(run, reason)

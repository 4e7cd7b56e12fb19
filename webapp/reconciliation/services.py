"""Periodic reconciliation of the database with the launcher.

A missing response means "unknown", never a failure. An attempt is given up only on proof: its job has ended, or the
launcher does not know it any more and it has been silent for DEATH_SECONDS. After its end, a job that still holds devices is
stopped, and the token of its driver is revoked.
"""

import logging
from datetime import datetime, timedelta
from functools import lru_cache

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from training_core.errors import Advice
from webapp.accounts.tokens import run_tokens_revoke
from webapp.ingest.services import spool_store
from webapp.quotas.services import storage_held
from webapp.runs.lifecycle import run_move, run_reason_set, runs_locked
from webapp.runs.models import ACTIVE_STATES, INACTIVE_STATES, Attempt, LogLine, Run, RunSource, RunState
from webapp.runs.selectors import facts_of
from webapp.runs.states import STATE_AFTER
from webapp.scheduling.attempts import (
    ENDING,
    ENDING_MEMBER,
    WAITS,
    attempt_end,
    attempt_lost,
    saved_words,
    spelled,
    starts_again,
    stopping_words,
)
from webapp.scheduling.client_runs import client_run_look_after
from webapp.scheduling.seed_groups import is_shared_now
from webapp.scheduling.submission import run_submit_now
from workers.launchers.bundled_ray import cluster_has_ended
from workers.launchers.launcher import STOP_SECONDS, JobState, JobStatus, Launcher, LauncherFailure
from workers.launchers.registry import make_launcher
from workers.storage.folders import RunFolder
from workers.telemetry.faults import Fault, fault_in, plain, printed_failure, seed_output

log = logging.getLogger(__name__)
TOKEN_REST = timedelta(hours=1)
"""Time after a run's end at which its drivers' tokens are revoked."""
EXIT_SECONDS = 30
"""Time between the end of an attempt and the stop of its job."""
LIVE = (JobState.PENDING, JobState.RUNNING)
_jobs_over: set[int] = set()
"""Attempts, ended within TOKEN_REST, whose jobs have ended: they are not queried again."""
DEATH_SECONDS = 90
"""A driver can outlive its Ray head by a minute: a missing job counts as dead only after this silence."""
RESUME = "Press Resume to continue from the last checkpoint."
OPEN_LOG = "Open the log; its last lines are the output of the job."
MISSING_SECONDS = 10
"""Age of the last heartbeat, twice its interval, at which a missing job is reported to the owner."""
SILENCE_SECONDS = 30
"""Age of the last heartbeat at which the owner is notified."""
START_SECONDS = 120
"""Time between a driver's start and its first report after which the owner is notified."""
UNDER_WAY = (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)
EXAMINED = ("state", "stop_requested", "end_requested_at")
"""Fields that decide what a run is reported to wait for."""
OVER = (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


@lru_cache(maxsize=1)
def process_start() -> datetime:
    """Return the first time this process checked: ages count from there at the earliest, so that an outage of the server kills no run."""
    return timezone.now()


def runs_reconcile_now() -> None:
    """Check every run that is queued or active, one at a time; a failure does not affect the others."""
    process_start()
    for run_id, state, source, mlflow in (
        Run.objects.filter(state__in=ACTIVE_STATES)
        .order_by("-priority", "created_at")
        .values_list("pk", "state", "source", "mlflow")
    ):
        try:
            if source == RunSource.CLIENT:
                client_run_look_after(run_id, process_start(), beats=mlflow is None)
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
        log.warning("jobs of ended attempts were not checked: %s", error)


def run_look_after(run_id: str) -> None:
    """Compare an active run with the launcher's status."""
    run = Run.objects.get(pk=run_id)
    attempt = run.attempts.order_by("-number").first()
    if attempt is None or run.state not in UNDER_WAY:
        return
    launcher = make_launcher(settings.TROUPE_LAUNCHER)
    ended = cluster_has_ended(attempt.cluster)  # known before the new start of Ray answers
    status = JobStatus(JobState.MISSING) if ended else launcher.status(attempt.job_id)
    if status.state is JobState.UNKNOWN:
        _unreachable(run, attempt, status)
    elif status.state in OVER or (status.state is JobState.MISSING and _is_dead(attempt)):
        _over(run, attempt, launcher, status)
    else:
        _alive(run, attempt, launcher, status)


def _age(attempt: Attempt) -> float:
    """Return the seconds since the last report, or since reports were possible."""
    heard = attempt.heartbeat_at or attempt.created_at
    return (timezone.now() - max(heard, process_start())).total_seconds()


def _is_dead(attempt: Attempt) -> bool:
    """Whether the driver of an attempt is known to have ended, if the launcher does not know its job."""
    return cluster_has_ended(attempt.cluster) or _age(attempt) > DEATH_SECONDS


def _unreachable(run: Run, attempt: Attempt, status: JobStatus) -> None:
    if attempt.unreachable_since is None and _age(attempt) > SILENCE_SECONDS:
        Attempt.objects.filter(pk=attempt.pk).update(unreachable_since=timezone.now())
        _say(run, Advice.of(status.message or "Ray does not answer").after("State unknown: "))


def _alive(run: Run, attempt: Attempt, launcher: Launcher, status: JobStatus) -> None:
    Attempt.objects.filter(pk=attempt.pk).exclude(unreachable_since=None).update(unreachable_since=None)
    if run.state == RunState.STOPPING:
        _stopping(run, attempt, launcher, status)
        return
    quiet = _age(attempt)
    if status.state is JobState.PENDING:
        if quiet > 10:
            _say(run, "Submitted; Ray has not started it yet")
    elif status.state is JobState.MISSING and quiet > MISSING_SECONDS:
        _say(run, _missing(run, attempt))
    elif attempt.heartbeat_at is None and quiet > START_SECONDS:
        cause = f"The job is running, but the driver started {spelled(quiet)} ago and has not reported."
        _say(run, Fault(cause, OPEN_LOG))
    elif attempt.heartbeat_at is not None and quiet > SILENCE_SECONDS:
        _say(
            run,
            f"The job is {status.state}, but the last heartbeat of its driver was {spelled(quiet)} ago",
        )
    elif run.state in (RunState.STARTING, RunState.RUNNING):
        doing = facts_of(run).get("starting" if run.state == RunState.STARTING else WAITS, "")
        _say(run, storage_held(run.project_id) or doing)


def _missing(run: Run, attempt: Attempt) -> Fault:
    """The message for a run whose job is unknown to Ray, and whose driver may still be alive."""
    quiet = _age(attempt)
    left = spelled(max(DEATH_SECONDS - quiet, 0.0))
    heard = attempt.heartbeat_at or attempt.created_at
    if heard < process_start():
        cause = f"The server was restarted at {process_start():%Y-%m-%d %H:%M} UTC."
    else:
        cause = f"Ray no longer lists this job; last heartbeat {spelled(quiet)} ago."
    if run.stop_requested:
        return Fault(cause, f"The run counts as {STATE_AFTER[run.stop_requested]} in about {left}.")
    if starts_again(run, losses=1):
        return Fault(cause, f"This run resumes automatically in about {left}.")
    return Fault(cause, f"This run counts as failed in about {left}; press Resume then.")


def _stopping(run: Run, attempt: Attempt, launcher: Launcher, status: JobStatus) -> None:
    """A reporting driver completes its iteration, however long that takes, unless a user has requested an immediate end.

    A silent one is stopped through the launcher.
    """
    asked = run.stop_requested_at or run.created_at
    silent = min(_age(attempt), (timezone.now() - asked).total_seconds())
    if run.end_requested_at is None and silent <= SILENCE_SECONDS:
        _say(run, stopping_words(run, attempt))
        return
    if status.state is JobState.MISSING:
        _say(run, _missing(run, attempt))
        return
    if is_shared_now(attempt):
        _stopping_member(run, attempt)
        return
    try:
        launcher.stop(attempt.job_id)
    except LauncherFailure as error:
        _say(run, error.advice)
        return
    heard = f"The driver has not reported for {spelled(_age(attempt))}: the job is being stopped"
    _say(run, ENDING if run.end_requested_at else heard)


def _stopping_member(run: Run, attempt: Attempt) -> None:
    """End a run whose process trains other runs, which continue: nothing stops the job.

    A run that has not reported at all, or not within STOP_SECONDS of a request to end now, is given up: its part of the
    process receives the command to exit with its next report.
    """
    if run.end_requested_at is None and attempt.heartbeat_at is not None:
        quiet = f"The driver has not reported for {spelled(_age(attempt))}. Its process trains other runs and is not stopped."
        _say(run, Fault(quiet, "Press End now to end this run alone."))
        return
    left = (
        STOP_SECONDS - (timezone.now() - run.end_requested_at).total_seconds()
        if run.end_requested_at
        else 0.0
    )
    if attempt.heartbeat_at is not None and left > 0:
        _say(run, f"{ENDING_MEMBER}, or is given up in {spelled(left)}")
        return
    with transaction.atomic():
        run = runs_locked().get(pk=run.pk)
        attempt.refresh_from_db()
        if attempt.state == Attempt.State.ENDED or not run.stop_requested:
            return
        how = f"{STATE_AFTER[run.stop_requested]} before it started"
        if attempt.heartbeat_at is not None:
            lost = f"the work after the last checkpoint is lost ({saved_words(run)})"
            how = f"Ended alone, while its process trains other runs; {lost}"
        _end_as_requested(run, attempt, how)


def _end_as_requested(run: Run, attempt: Attempt, how: str) -> None:
    state = STATE_AFTER[run.stop_requested]
    attempt_end(attempt, state, how)
    run_move(run, state, how, stop_requested="")


def _over(run: Run, attempt: Attempt, launcher: Launcher, status: JobStatus) -> None:
    """Handle an ended job. First store undelivered events from its folder: they may contain the driver's own last status."""
    whole = spool_store(run.pk, RunFolder(settings.TROUPE_HOME / "runs" / run.pk).spool(attempt.number))
    held = "" if whole else storage_held(run.project_id)
    if held and not run.stop_requested:  # the undelivered events may contain its last status
        _say(run, Advice.of(held).after("The job has ended. "))
        return
    tail = launcher.logs(attempt.job_id)
    if attempt.shared_job:
        tail = seed_output(tail, int(run.config["run"]["seed"]))
    with transaction.atomic():
        run = runs_locked().get(pk=run.pk)
        attempt.refresh_from_db()
        if attempt.state == Attempt.State.ENDED or run.state not in ACTIVE_STATES:
            return
        if tail:
            _keep_tail(run, attempt, tail)
        if run.stop_requested and status.state is not JobState.MISSING:
            how = f"{_how_ended(run, attempt, status).rstrip('.')}; the work after the last checkpoint is lost ({saved_words(run)})"
            _end_as_requested(run, attempt, how)
        else:
            printed, again = printed_failure(tail)
            attempt_lost(run, attempt, printed or _how(status, attempt), again=again)
    if run.state == RunState.QUEUED:
        run_submit_now(run.pk)


def _how_ended(run: Run, attempt: Attempt, status: JobStatus) -> str:
    if status.state is not JobState.STOPPED:
        return _how(status, attempt).cause
    return (
        "Ended immediately, as requested"
        if run.end_requested_at
        else "The job was stopped, because its driver was silent"
    )


def _how(status: JobStatus, attempt: Attempt) -> Fault:
    driver = "The driver"
    if attempt.shared_job:
        others = attempt.shared_by - 1
        driver = f"The process that trained this run with {others} other seed{'' if others == 1 else 's'}"
    if status.state is JobState.MISSING:
        restarted = cluster_has_ended(attempt.cluster)
        silent = f"Ray no longer lists the job, and its driver was silent for {DEATH_SECONDS} s."
        return Fault("Ray was restarted and ended the run." if restarted else silent, RESUME)
    message = fault_in(status.message).cause
    return Fault(
        f"{driver} ended without a report (job {status.state}){': ' + message if message else '.'}",
        OPEN_LOG,
    )


def _keep_tail(run: Run, attempt: Attempt, tail: str) -> None:
    """Store the end of the job's own output: often the only hint at the cause of its death."""
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
def _say(run: Run, reason: str | Fault) -> None:
    """Store what an active run waits for, unless its state or a request has changed since `run` was read."""
    locked = runs_locked().get(pk=run.pk)
    unchanged = all(getattr(locked, name) == getattr(run, name) for name in EXAMINED)
    if unchanged and locked.state in ACTIVE_STATES:
        run_reason_set(locked, reason)


def jobs_end(launcher: Launcher) -> None:
    """Stop the jobs of attempts that ended a while ago: a driver that hangs after its last report, or is alive after it was
    given up, would hold devices reserved for other runs.
    """
    now = timezone.now()
    ended = Attempt.objects.filter(
        state=Attempt.State.ENDED,
        ended_at__gt=now - TOKEN_REST,
        ended_at__lt=now - timedelta(seconds=EXIT_SECONDS),
    )
    others = Attempt.objects.exclude(shared_job="").exclude(
        state=Attempt.State.ENDED, ended_at__lt=now - timedelta(seconds=EXIT_SECONDS)
    )  # a shared job ends with the last of its runs
    ended = ended.exclude(shared_job__in=others.values("shared_job"))
    waiting = {attempt.pk: attempt.job_id for attempt in ended}
    _jobs_over.intersection_update(waiting)
    for pk, job in waiting.items():
        if pk in _jobs_over:
            continue
        state = launcher.status(job).state
        if state is JobState.UNKNOWN:
            return  # each further query would wait as long as this one
        if state in LIVE:
            _job_stop(launcher, job)
        else:
            _jobs_over.add(pk)


def _job_stop(launcher: Launcher, submission_id: str) -> None:
    log.warning("%s exists after its attempt has ended; stopping it", submission_id)
    try:
        launcher.stop(submission_id)
    except LauncherFailure as error:
        log.warning("%s continues to run: %s", submission_id, error)


def tokens_end() -> None:
    """Revoke tokens some time after a run's end: a disconnected driver still receives "exit" and delivers its last events."""
    over = Run.objects.filter(state__in=INACTIVE_STATES, ended_at__lt=timezone.now() - TOKEN_REST)
    for run in over.filter(ingest_tokens__revoked_at=None, ingest_tokens__isnull=False).distinct():
        run_tokens_revoke(run.pk)

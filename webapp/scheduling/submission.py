"""Submission of queued runs: admission, a new attempt, the launcher.

The database is the queue. Submission is idempotent: the attempt is written first, its submission id names the job, and
a launcher that already has the job returns it.
"""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.urls import reverse
from django.utils import timezone

from training_core.config.files import parse_config, to_toml
from training_core.errors import Advice, ConfigError
from webapp.accounts.models import ApiToken
from webapp.accounts.tokens import token_create
from webapp.checkpoints.services import checkpoint_latest
from webapp.runs.configs import parse_permitted_for
from webapp.runs.lifecycle import run_locked, run_move, run_reason_set, runs_locked
from webapp.runs.models import Attempt, Run, RunState
from webapp.scheduling.admission import what_it_waits_for
from webapp.scheduling.seed_groups import members_of, peers_of, shares_give
from workers.launchers.bundled_ray import present_cluster
from workers.launchers.launcher import (
    Capacity,
    JobState,
    Launch,
    Launcher,
    LauncherFailure,
    SeedGroupLaunch,
)
from workers.launchers.registry import make_launcher
from workers.sizing.placement import demand
from workers.storage.folders import RunFolder
from workers.telemetry.faults import Fault, fault_of

log = logging.getLogger(__name__)
ADMISSION_LOCK = 7_461_001
"""Key of the advisory lock that serialises the admission of runs."""
SUBMITTING_LIMIT = timedelta(seconds=30)
"""Seconds after which an unconfirmed submission is repeated, with the same id."""


def run_submit_now(run_id: str) -> bool:
    """Submit a queued run if its devices are free, with the runs that train in its process; else record what it waits for.

    Returns True if a job was submitted.
    """
    try:
        launcher = make_launcher(settings.TROUPE_LAUNCHER)
        capacity = launcher.capacity()
    except LauncherFailure as error:
        return _waits(run_id, error.advice)
    attempts = _admit(run_id, capacity)
    return bool(attempts) and _submit(attempts, launcher)


@transaction.atomic
def _admit(run_id: str, capacity: Capacity | None) -> list[Attempt]:
    """Create the attempts to submit as one job: of the run and of its seed group. Empty if it must wait or has changed its state."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ADMISSION_LOCK])
    run = run_locked(run_id)
    if run is None or run.state != RunState.QUEUED:
        return []
    attempt = run.attempts.order_by("-number").first()
    if attempt is not None and attempt.state == Attempt.State.SUBMITTING:
        return _repeated(attempt)
    try:
        config = parse_permitted_for(run.owner, run.config)
    except ConfigError as error:
        fault = fault_of(error)
        cause = f"The config is rejected by this version of Troupe, or by the permissions of the owner: {fault.cause}"
        run_move(run, RunState.FAILED, Fault(cause, fault.remedy))
        return []
    reason = what_it_waits_for(run, demand(config), capacity)
    if reason:
        run_reason_set(run, reason)
        return []
    peers = [] if attempt or capacity is None else peers_of(run, config, capacity)
    attempts = [_attempt_next(member, attempt) for member in (run, *peers)]
    shares_give(attempts)
    return attempts


def _repeated(attempt: Attempt) -> list[Attempt]:
    """Return the unconfirmed attempts to submit again; of a seed group, its first one repeats the submission of all."""
    if attempt.created_at > timezone.now() - SUBMITTING_LIMIT and attempt.reason == "":
        return []  # another task submits it
    members = [one for one in members_of(attempt) if one.state == Attempt.State.SUBMITTING]
    return members if members[0].pk == attempt.pk else []


def _attempt_next(run: Run, attempt: Attempt | None) -> Attempt:
    """Create the attempt that follows `attempt`."""
    number = attempt.number + 1 if attempt else 1
    chosen = (
        run.checkpoints.filter(path=run.resume_from).first() if run.resume_from else checkpoint_latest(run)
    )
    return Attempt.objects.create(
        run=run,
        number=number,
        submission_id=Launch(run.pk, number, Path(), Path()).submission_id,
        resumed_from=run.resume_from or (chosen.path if chosen else ""),
        resumed_iteration=chosen.iteration if chosen else 0,
        exact=bool(run.resume_from),
        cluster=present_cluster(),
        changes=_edits_taken(run),
    )


def _edits_taken(run: Run) -> dict[str, Any]:
    """Move the edits and the selected checkpoint from the run to the new attempt; returns the edits."""
    edits: dict[str, Any] = run.edits
    run.edits, run.resume_from = {}, ""
    run.save(update_fields=["edits", "resume_from"])
    return edits


def _submit(attempts: list[Attempt], launcher: Launcher) -> bool:
    """Submit outside any transaction, because the launcher may be slow."""
    tokens = [_token_of(attempt) for attempt in attempts]
    try:
        launcher.submit(_job_of(attempts, [secret for _, secret in tokens]))
    except (LauncherFailure, OSError) as error:
        reason = (
            error.advice
            if isinstance(error, LauncherFailure)
            else Advice(
                f"The run folder cannot be written: {error}",
                "free space on the server's disk, or allow the server to write there",
            )
        )
        if launcher.status(attempts[0].job_id).state is JobState.MISSING:
            for token, _ in tokens:
                token.delete()  # the token was not used
        for attempt in attempts:
            Attempt.objects.filter(pk=attempt.pk, state=Attempt.State.SUBMITTING).update(reason=reason)
            _waits(attempt.run_id, reason)
        return False
    wanted = [_submitted(attempt) for attempt in attempts]
    if any(wanted):
        return True
    _withdraw(attempts[0], launcher)
    return False


def _token_of(attempt: Attempt) -> tuple[ApiToken, str]:
    """Create the token with which the driver of an attempt reports."""
    run = attempt.run
    name = f"run {run.pk}, attempt {attempt.number}"
    return token_create(run.owner, name, [ApiToken.Scope.INGEST], run_id=run.pk)


def _job_of(attempts: list[Attempt], secrets: list[str]) -> Launch | SeedGroupLaunch:
    """Return the parameters of the job: of one attempt, or of those that share its process."""
    launches = tuple(
        _launch(attempt.run, attempt, secret) for attempt, secret in zip(attempts, secrets, strict=True)
    )
    first = attempts[0]
    if not first.shared_job:
        return launches[0]
    return SeedGroupLaunch(launches, first.shared_job, demand(parse_config(first.run.config)).cpus)


def _launch(run: Run, attempt: Attempt, secret: str) -> Launch:
    """Write the config and the token to the run folder, and return all inputs of the driver."""
    folder = RunFolder(settings.TROUPE_HOME / "runs" / run.pk)
    folder.root.mkdir(parents=True, exist_ok=True)
    folder.config.write_text(to_toml(parse_permitted_for(run.owner, run.config)))
    folder.write_token(attempt.number, secret)
    return Launch(
        run=run.pk,
        attempt=attempt.number,
        folder=folder.root,
        home=settings.TROUPE_HOME,
        ingest_url=settings.TROUPE_URL.rstrip("/") + reverse("api:run-events", args=[run.pk]),
        resume_from=folder.root / attempt.resumed_from if attempt.resumed_from else None,
        fork_from=_fork_origin(run),
        fall_back=not attempt.exact,
    )


def _fork_origin(run: Run) -> Path | None:
    """Return the checkpoint of another run from which this one starts."""
    if run.parent_id is None or not run.parent_checkpoint:
        return None
    return settings.TROUPE_HOME / "runs" / run.parent_id / run.parent_checkpoint


def _withdraw(attempt: Attempt, launcher: Launcher) -> None:
    """Stop the job of a run that was stopped during its submission; its driver receives the command to exit."""
    try:
        launcher.stop(attempt.job_id)
    except LauncherFailure as error:
        log.warning("run %s: the job of its stopped attempt runs until it reports: %s", attempt.run_id, error)


@transaction.atomic
def _submitted(attempt: Attempt) -> bool:
    """Record that the job exists. If its driver has already reported, the state has changed.

    Returns False if the run was stopped in the meantime, so that the job is not needed.
    """
    run = runs_locked().get(pk=attempt.run_id)
    changed = Attempt.objects.filter(pk=attempt.pk, state=Attempt.State.SUBMITTING).update(
        state=Attempt.State.LIVE, reason=""
    )
    if changed and run.state == RunState.QUEUED:
        run_move(run, RunState.STARTING)
    attempt.refresh_from_db()
    # Ended before its first report: by a user, not by its driver.
    return attempt.state != Attempt.State.ENDED or attempt.heartbeat_at is not None


@transaction.atomic
def _waits(run_id: str, reason: str) -> bool:
    run = run_locked(run_id)
    if run is not None and run.state == RunState.QUEUED:
        run_reason_set(run, reason)
    return False

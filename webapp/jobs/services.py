"""Short jobs: what a user may see, submission, tracking, conversation, cancellation."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import zstandard
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from training_core.config.files import to_toml
from training_core.errors import ConfigError
from troupe_client.documents import jobs as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person, can_edit
from webapp.accounts.selectors import projects_visible
from webapp.agents.rewards import return_label
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import damage_note
from webapp.jobs.models import Job
from webapp.jobs.replays import job_recorded
from webapp.runs.configs import parse_permitted_for
from webapp.runs.states import TransitionRefused
from workers.launchers.launcher import JobLaunch, JobState, LauncherFailure, LauncherStarting
from workers.launchers.registry import make_launcher
from workers.storage.folders import JobFolder
from workers.telemetry.faults import reason

log = logging.getLogger(__name__)
OVER = (JobState.FAILED, JobState.STOPPED, JobState.SUCCEEDED)
AT_ONCE = 2
"""Maximum number of concurrent jobs on this server; others wait in the queue."""
SUBMIT_LOCK = 7_461_003
SUBMITTING_LIMIT = timedelta(seconds=60)
"""Seconds after a claim without a backend job, until the submission counts as failed."""
LONGEST_SAID = 20_000
"""Maximum characters of a user's message."""
POLL, POLL_SOON = 700, 200
"""Milliseconds between two requests of a page for a job: at other times, and while an answer is expected soon."""
SOON = timedelta(seconds=10)
"""Age of a job that is expected to answer soon: most do after one second."""


def poll_delay(job: Job) -> int:
    """Return the milliseconds after which a page asks again for a job. The policies of a conversation answer soon."""
    soon = job.kind == Job.Kind.TALK or job.created_at > timezone.now() - SOON
    return POLL_SOON if soon else POLL


def jobs_visible(user: Person) -> QuerySet[Job]:
    """Return the jobs of the user's projects, newest first, without their episodes."""
    return (
        Job.objects.filter(project__in=projects_visible(user))
        .select_related("project", "owner", "run", "checkpoint__run", "other__run")
        .defer("run__facts", "checkpoint__run__facts", "other__run__facts")
        .defer("episodes")
    )


def job_get(user: Person, pk: str) -> Job:
    """Return one job. Raises Http404, also for projects that are not visible to the user."""
    job = None if "\0" in pk else jobs_visible(user).filter(pk=pk).first()
    if job is None:
        raise Http404(f"there is no job {pk} that is visible to you")
    return job


def job_episodes(job: Job) -> list[dict[str, Any]]:
    """Return its episodes: the fields of episode events."""
    if job.episodes:
        episodes: list[dict[str, Any]] = orjson.loads(zstandard.decompress(bytes(job.episodes)))
        return episodes
    try:
        return job_folder(job).kept()
    except (OSError, ValueError):
        return []


def job_document(job: Job) -> documents.Job:
    """Return the document of a job of `jobs_visible`."""
    return documents.Job(**_fields(job))


def job_detail(job: Job) -> documents.JobDetail:
    """Return a job with its episodes and the conversation."""
    now = moment(job) if job.live else None
    return documents.JobDetail.model_construct(**_fields(job), episodes=job_episodes(job), moment=now)


def _fields(job: Job) -> dict[str, Any]:
    same = "kind state progress message parameters result created_at started_at ended_at"
    return {
        "id": job.pk,
        "project": job.project.slug,
        "owner": job.owner.username,
        "run": job.run_id,
        "checkpoint": _checkpoint(job.checkpoint),
        "other": _checkpoint(job.other),
        "return_label": return_label(job.config),
        "url": reverse("jobs:page", args=[job.pk]),
    } | {name: getattr(job, name) for name in same.split()}


def _checkpoint(checkpoint: Checkpoint | None) -> documents.JobCheckpoint | None:
    if checkpoint is None:
        return None
    return documents.JobCheckpoint(
        run=checkpoint.run_id, path=checkpoint.path, iteration=checkpoint.iteration
    )


def job_cancel(user: Person, job: Job) -> Job:
    """Cancel a job; its finished episodes are kept. Raises PermissionDenied."""
    if not can_edit(user, job.project):
        raise PermissionDenied(f"you cannot cancel jobs in the project {job.project.slug}")
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).select_related("project").get(pk=job.pk)
        if not job.live:
            return job
        _end(job, Job.State.CANCELLED, "cancelled")
        audit_note(user, job.project, "job.cancel", job.pk)
    _process_stop(job)
    return job


def _process_stop(job: Job) -> None:
    """Stop the process of a cancelled job, if the launcher knows it."""
    if job.submission_id:
        try:
            make_launcher(settings.TROUPE_LAUNCHER).stop(job.submission_id)
        except LauncherFailure as error:
            log.warning("job %s: cancelled, but not stopped: %s", job.pk, error)


def job_say(user: Person, job: Job, turn: int, text: str) -> None:
    """Send the user's message in their turn. Raises PermissionDenied, TransitionRefused if it is not their turn."""
    if not can_edit(user, job.project):
        raise PermissionDenied(f"you cannot send messages in the project {job.project.slug}")
    asked = (moment(job) or {}).get("asked")
    if not job.live or not asked or asked["turn"] != turn:
        raise TransitionRefused("it is not your turn; reload the conversation")
    if len(text) > LONGEST_SAID:
        raise ConfigError({"text": f"at most {LONGEST_SAID} characters"})
    folder = job_folder(job)
    # Written before the message: the job may answer at once with the next moment.
    folder.write("moment", {**(moment(job) or {}), "asked": None})
    folder.say(turn, text)


def job_folder(job: Job) -> JobFolder:
    """Return the job's working folder."""
    return JobFolder(settings.TROUPE_HOME / "work" / job.pk)


def moment(job: Job) -> dict[str, Any] | None:
    """Return the current state of a conversation; None before it begins."""
    try:
        return job_folder(job).read("moment")
    except (OSError, ValueError):
        return None


def jobs_submit() -> int:
    """Start queued jobs, oldest first, while there is room; returns their number.

    A job whose cluster does not answer stays queued, and those after it are tried next time.
    """
    started = 0
    while (job := _claim()) is not None:
        state = _submit(job)
        if state == Job.State.QUEUED:
            break
        started += state == Job.State.RUNNING
    return started


def job_follow(job: Job) -> Job:
    """Read the output of a job's process: progress, result, episodes; or its disappearance."""
    if job.state != Job.State.RUNNING:
        return job
    folder = job_folder(job)
    try:
        launcher = make_launcher(settings.TROUPE_LAUNCHER)
        status = launcher.status(job.submission_id)
        tail = launcher.logs(job.submission_id) if status.state in OVER else ""
        result, error, progress = (folder.read(name) for name in ("result", "error", "progress"))
    except (OSError, ValueError, LauncherFailure) as failure:
        log.warning("job %s could not be read: %s", job.pk, failure)
        return job
    with transaction.atomic():
        job = (
            Job.objects.select_for_update(of=("self",))
            .select_related("project", "owner", "run", "checkpoint", "other")
            .get(pk=job.pk)
        )
        if job.state != Job.State.RUNNING:
            return job
        if progress:
            job.progress, job.message = float(progress["done"]), str(progress["text"])
        if result is not None:
            job.progress, job.result = 1.0, result
            _end(job, Job.State.FINISHED, "")
        elif error is not None:
            _damage_taken(job, folder)
            _end(job, Job.State.FAILED, reason(str(error["reason"])))
        elif _gone(job, status.state):
            reasons = [
                status.message or "its process ended without a message",
                tail.strip().rpartition("\n")[2],
            ]
            _end(job, Job.State.FAILED, reason(": ".join(filter(None, reasons))))
        else:
            job.save(update_fields=["progress", "message"])
    return job


def _damage_taken(job: Job, folder: JobFolder) -> None:
    """Mark a checkpoint as damaged if the job reports it."""
    report = folder.read("damage")
    checkpoint = (
        {"checkpoint": job.checkpoint, "other": job.other}.get(str(report["which"])) if report else None
    )
    if report and checkpoint:
        damage_note(checkpoint.run, checkpoint.path, str(report["found"]))


def _gone(job: Job, state: JobState) -> bool:
    """Whether its process has ended. Between claim and submission, the backend does not know it yet."""
    if state is JobState.MISSING:
        return job.started_at is None or job.started_at < timezone.now() - SUBMITTING_LIMIT
    return state in OVER


def jobs_follow() -> None:
    """Follow all running jobs, then start queued ones."""
    for job in Job.objects.filter(state=Job.State.RUNNING).select_related("project"):
        job_follow(job)
    jobs_submit()


@transaction.atomic
def _claim() -> Job | None:
    """Mark the next job as running and return it; None if none waits or there is no room."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [SUBMIT_LOCK])
    if Job.objects.filter(state=Job.State.RUNNING).count() >= AT_ONCE:
        return None
    job = (
        Job.objects.filter(state=Job.State.QUEUED)
        .select_related("checkpoint", "other", "owner")
        .order_by("created_at", "pk")
        .first()
    )
    if job is None:
        return None
    job.submission_id = JobLaunch(job.pk, Path(), Path()).submission_id
    job.state, job.started_at, job.message = Job.State.RUNNING, timezone.now(), "starting"
    job.save(update_fields=["state", "started_at", "message", "submission_id"])
    return job


def _submit(job: Job) -> str:
    """Start the process of a claimed job. Returns the job's state afterwards."""
    folder = job_folder(job)
    try:
        config = parse_permitted_for(job.owner, job.config)
        request = {
            "kind": job.kind,
            "parameters": job.parameters | _devices(job) | job_recorded(job),
            "checkpoint": _place(job.checkpoint),
            "other": _place(job.other),
        }
        folder.open(to_toml(config), request)
        gpus = 0.0 if job.kind == Job.Kind.CHECK else min(config.acting_gpus, 1.0)
        launch = JobLaunch(job.pk, folder.root, settings.TROUPE_HOME, gpus)
        make_launcher(settings.TROUPE_LAUNCHER).submit(launch)
    except (LauncherFailure, OSError, ConfigError) as error:
        waits = isinstance(error, LauncherStarting) or (
            isinstance(error, LauncherFailure) and make_launcher(settings.TROUPE_LAUNCHER).capacity() is None
        )
        with transaction.atomic():
            job = Job.objects.select_for_update().get(pk=job.pk)
            if job.state == Job.State.RUNNING:
                if waits:
                    _requeue(job, str(error))
                else:
                    _end(job, Job.State.FAILED, str(error))
    job.refresh_from_db(fields=["state"])
    if job.state == Job.State.CANCELLED:  # before the launcher knew it
        _process_stop(job)
    return job.state


def _requeue(job: Job, message: str) -> None:
    """Under the row's lock: let a job wait for a cluster that does not answer, e.g. while it starts.

    It keeps its submission id: the cluster may have accepted it without an answer, and `job_cancel` then stops it.
    """
    job.state, job.started_at, job.message = Job.State.QUEUED, None, message
    job.save(update_fields=["state", "started_at", "message"])


def _devices(job: Job) -> dict[str, Any]:
    """The devices of the cluster for a check, which requests none itself: it must end where there are none."""
    if job.kind != Job.Kind.CHECK:
        return {}
    capacity = make_launcher(settings.TROUPE_LAUNCHER).capacity()
    if capacity is None:
        return {"cluster": None}
    nodes = [{"main": node.memory, "gpu": node.gpu_memory} for node in capacity.nodes]
    return {"cluster": {"gpus": capacity.gpus, "nodes": nodes}}


def _place(checkpoint: Checkpoint | None) -> str:
    if checkpoint is None:
        return ""
    return str(settings.TROUPE_HOME / "runs" / checkpoint.run_id / checkpoint.path)


def _end(job: Job, state: Job.State, message: str) -> None:
    """Under the row's lock: store the state, and the episodes from the folder."""
    job.state, job.message, job.ended_at = state, message, timezone.now()
    try:
        job.episodes = zstandard.compress(orjson.dumps(job_folder(job).kept()))
    except (OSError, ValueError) as error:
        log.warning("job %s: its episodes could not be read: %s", job.pk, error)
    job.save()

"""Queries of short jobs, limited to the user's own projects."""

from datetime import timedelta
from typing import Any

import orjson
import zstandard
from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from webapp.accounts.permissions import Person
from webapp.accounts.selectors import projects_visible
from webapp.agents.rewards import return_label
from webapp.checkpoints.models import Checkpoint
from webapp.jobs.models import Job
from webapp.jobs.services import job_folder, moment

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


def checkpoint_find(user: Person, run_id: str, name: str) -> Checkpoint:
    """Return a checkpoint of a visible run by its path, its name or its iteration; "" and "latest" are the last one,
    "best" the best. Raises Http404.
    """
    rows = (
        Checkpoint.objects.filter(run_id=run_id, run__project__in=projects_visible(user), removed=False)
        .select_related("run")
        .defer("run__facts")
    )
    if name in ("", "latest"):
        row = rows.filter(damaged="").order_by("-iteration").first()
    elif name == "best":
        row = rows.filter(best=True).first()
    elif name.isascii() and name.isdigit() and len(name) < 10:
        row = rows.filter(iteration=int(name)).first()
    else:
        row = (
            None
            if "\0" in name
            else (rows.filter(path=name) | rows.filter(path=f"checkpoints/{name}")).first()
        )
    if row is None:
        raise Http404(f"the run {run_id} has no checkpoint {name or 'yet'}")
    return row


def job_document(job: Job, *, whole: bool = False) -> dict[str, Any]:
    """Return a job for the API and pages; with `whole` also its episodes and the conversation."""
    document: dict[str, Any] = {
        "id": job.pk,
        "kind": job.kind,
        "state": job.state,
        "progress": job.progress,
        "message": job.message,
        "project": job.project.slug,
        "owner": job.owner.username,
        "run": job.run_id,
        "checkpoint": _checkpoint(job.checkpoint),
        "other": _checkpoint(job.other),
        "parameters": job.parameters,
        "return_label": return_label(job.config),
        "result": job.result,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "url": reverse("jobs:page", args=[job.pk]),
    }
    if whole:
        document |= {"episodes": job_episodes(job), "moment": moment(job) if job.live else None}
    return document


def _checkpoint(checkpoint: Checkpoint | None) -> dict[str, Any] | None:
    if checkpoint is None:
        return None
    return {"run": checkpoint.run_id, "path": checkpoint.path, "iteration": checkpoint.iteration}

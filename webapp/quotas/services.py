"""A project's quota: limits, usage, and its enforcement on starting runs and on storing events.

A quota loses no data: runs wait in the queue, and events wait on the trainer's disk until there is room.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from django.apps import apps
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.db.models.functions import Length
from django.utils import timezone

from training_core.errors import Advice, ConfigError
from troupe_client.documents import quotas as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, is_owner
from webapp.checkpoints.models import Checkpoint
from webapp.common.compiled import CompiledQuery
from webapp.media.models import MediaValue
from webapp.metrics.models import Series
from webapp.quotas.models import Quota
from webapp.runs.costs import demands_of, runs_holding, runs_waiting
from webapp.runs.lifecycle import submit_soon
from webapp.transcripts.models import EpisodeAnnotation, EpisodeBody
from workers.sizing.placement import Demand

GIGA = 10**9
SLACK = 1e-6
HELD = "Events wait on the trainer's disk: "
"""Prefix of a run's reason while its events are not stored."""
_QUOTA = CompiledQuery(lambda project_id: Quota.objects.filter(project=project_id))


def admission_reason(project_id: int, wanted: Demand, held: Sequence[Demand]) -> str:
    """Return why a run of this project with the demand `wanted` cannot start while its other runs hold `held`; empty if it
    can. Names the quota.
    """
    quota = _QUOTA.first(project_id)
    if quota is None:
        return ""
    if quota.runs is not None and len(held) >= quota.runs:
        return f"Waiting for the project's quota of {quota.runs} concurrent runs; {len(held)} are active"
    for name, words in (("cpus", "CPU cores"), ("gpus", "GPUs")):
        limit, asked = getattr(quota, name), getattr(wanted, name)
        taken = sum(getattr(need, name) for need in held)
        if limit is None or not asked or asked + taken <= limit + SLACK:
            continue
        if asked > limit + SLACK:
            return Advice(
                f"Waiting: it needs {asked:g} {words}, more than the project's quota of {limit:g}",
                "reduce its resources, or request a higher quota",
            )
        return f"Waiting for the project's quota of {limit:g} {words}: it needs {asked:g}, and {taken:g} are in use"
    full = _full(quota)
    return Advice.of(full).after("Waiting: ") if full else ""


def runs_left(project_id: int, held: int) -> int | None:
    """Return how many runs of this project may start while `held` hold devices; None without a limit."""
    quota = _QUOTA.first(project_id)
    return None if quota is None or quota.runs is None else max(0, quota.runs - held)


def processes_left(project_id: int, wanted: Demand, held: Sequence[Demand]) -> float:
    """Return how many processes with the demand `wanted` the limits of devices allow while others hold `held`; inf without a limit."""
    quota = _QUOTA.first(project_id)
    limits = [inf]
    for name in ("cpus", "gpus"):
        limit, asked = getattr(quota, name, None), getattr(wanted, name)
        if limit is not None and asked:
            limits.append((limit - sum(getattr(need, name) for need in held) + SLACK) // asked)
    return min(limits)


def storage_held(project_id: int) -> str:
    """Return a run's reason if events of this project cannot be stored now; empty if there is room."""
    quota = _QUOTA.first(project_id)
    full = _full(quota) if quota else ""
    return Advice.of(full).after(HELD) if full else ""


def _full(quota: Quota) -> str:
    """Compare the last measurement with the quota."""
    if quota.points is not None and quota.stored_points >= quota.points:
        return Advice(
            f"the project stores {quota.stored_points:,} points, and its quota is {quota.points:,}",
            "request a higher quota",
        )
    if quota.gigabytes is not None and quota.stored_bytes >= quota.gigabytes * GIGA:
        stored = quota.stored_bytes / GIGA
        return Advice(
            f"the project stores {stored:.3g} GB, and its quota is {quota.gigabytes:g} GB",
            "remove checkpoints, or request a higher quota",
        )
    return ""


LIMITS = tuple(documents.QuotaLimits.model_fields)
DIGITS = 3


def quota_of(project: Project) -> Quota:
    """Return the project's quota, or an unsaved one without limits."""
    return Quota.objects.filter(project=project).first() or Quota(project=project)


def points_stored(project: Project) -> int:
    """Return the number of points in all series of its runs."""
    return Series.objects.filter(run__project=project).aggregate(total=Sum("count"))["total"] or 0


def bytes_stored(project: Project) -> int:
    """Return the bytes of compressed transcripts, annotations, media, stored checkpoints, and files of artifacts."""
    files = apps.get_model("artifacts", "ArtifactFile").objects.filter(version__removed=False)
    bodies, *others = [
        _total(EpisodeBody.objects.all(), "episode__run__project", Sum("size"), project),
        _total(EpisodeAnnotation.objects.all(), "run__project", Sum(Length("data")), project),
        _total(MediaValue.objects.all(), "run__project", Sum("size"), project),
        _total(Checkpoint.objects.filter(removed=False), "run__project", Sum("size"), project),
        _total(files, "version__artifact__project", Sum("size"), project),
    ]
    return int(sum(total for (total,) in bodies.union(*others, all=True)))


def _total(rows: QuerySet[Any], owner: str, amount: Sum, project: Project) -> QuerySet[Any, tuple[int]]:
    """Return one row with the sum over the rows of a project, which the field `owner` names; none without rows."""
    by_project = rows.filter(**{owner: project}).order_by().values(owner)
    totals: QuerySet[Any, tuple[int]] = by_project.annotate(total=amount).values_list("total")
    return totals


def usage_read(project: Project) -> documents.QuotaUsage:
    """Return the current usage."""
    holding = list(runs_holding().filter(project=project))
    held = [wanted for _, wanted in demands_of(holding)]
    return documents.QuotaUsage(
        runs=len(holding),
        cpus=round(sum(need.cpus for need in held), DIGITS),
        gpus=round(sum(need.gpus for need in held), DIGITS),
        points=points_stored(project),
        gigabytes=round(bytes_stored(project) / GIGA, DIGITS),
    )


def quota_document(project: Project) -> documents.Quota:
    """Return limits and usage of a project."""
    quota = quota_of(project)
    limits = documents.QuotaLimits(**{name: getattr(quota, name) for name in LIMITS})
    return documents.Quota(project=project.slug, limits=limits, used=usage_read(project), locked=quota.locked)


@transaction.atomic
def quota_set(user: Person, project: Project, limits: Mapping[str, float | None]) -> Quota:
    """Change some limits; None removes a limit. Triggers a check of queued runs.

    Raises PermissionDenied unless the user is an owner, or if an administrator has locked it; ConfigError.
    """
    quota, _ = Quota.objects.select_for_update().get_or_create(project=project)
    if not is_owner(user, project):
        raise PermissionDenied("only owners of the project may change its quotas")
    if quota.locked:
        raise PermissionDenied("an administrator has set these quotas; ask one to change them")
    for name, value in limits.items():
        setattr(quota, name, value)
    try:
        quota.full_clean(exclude=["project"])
    except ValidationError as error:
        raise ConfigError(
            {field: " ".join(messages) for field, messages in error.message_dict.items()}
        ) from error
    quota.save()
    quota_measure(quota)
    audit_note(user, project, "quota.set", project.slug, **limits)
    for run_id in runs_waiting().filter(project=project).values_list("pk", flat=True):
        transaction.on_commit(partial(submit_soon, run_id))
    return quota


def quota_measure(quota: Quota) -> Quota:
    """Measure the stored data, if it is limited."""
    if quota.points is not None:
        quota.stored_points = points_stored(quota.project)
    if quota.gigabytes is not None:
        quota.stored_bytes = bytes_stored(quota.project)
    quota.measured_at = timezone.now()
    quota.save(update_fields=["stored_points", "stored_bytes", "measured_at"])
    return quota

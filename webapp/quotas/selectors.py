"""Usage and limits of a project."""

from typing import Any

from django.apps import apps
from django.db.models import QuerySet, Sum
from django.db.models.functions import Length

from webapp.accounts.models import Project
from webapp.checkpoints.models import Checkpoint
from webapp.media.models import MediaValue
from webapp.metrics.models import Series
from webapp.quotas.enforcement import GIGA
from webapp.quotas.models import Quota
from webapp.runs.costs import demands_of, runs_holding
from webapp.transcripts.models import EpisodeAnnotation, EpisodeBody

LIMITS = ("runs", "cpus", "gpus", "points", "gigabytes")
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


def usage_read(project: Project) -> dict[str, float]:
    """Return the current usage, by the names of the limits."""
    holding = list(runs_holding().filter(project=project))
    held = [wanted for _, wanted in demands_of(holding)]
    return {
        "runs": len(holding),
        "cpus": round(sum(need.cpus for need in held), DIGITS),
        "gpus": round(sum(need.gpus for need in held), DIGITS),
        "points": points_stored(project),
        "gigabytes": round(bytes_stored(project) / GIGA, DIGITS),
    }


def quota_document(project: Project) -> dict[str, Any]:
    """Return {"project", "limits": {name: number or null}, "used": {name: number}, "locked"}."""
    quota = quota_of(project)
    return {
        "project": project.slug,
        "limits": {name: getattr(quota, name) for name in LIMITS},
        "used": usage_read(project),
        "locked": quota.locked,
    }

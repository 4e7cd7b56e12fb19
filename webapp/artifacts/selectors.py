"""Reading artifacts, limited to what a user may see."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse

from training_core.errors import ConfigError
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import projects_visible
from webapp.artifacts.bodies import LATEST, VERSION
from webapp.artifacts.models import Artifact, ArtifactUse, ArtifactVersion
from webapp.runs.models import Run

MOST = 500


def artifacts_visible(user: Person) -> QuerySet[Artifact]:
    """Return the artifacts of the user's projects, by name."""
    artifacts = Artifact.objects.filter(project__in=projects_visible(user)).select_related("project")
    return artifacts.order_by("name", "pk")


def artifact_get(user: Person, pk: int) -> Artifact:
    """Return an artifact. Raises Http404, also for projects that are not visible to the user."""
    artifact = artifacts_visible(user).filter(pk=pk).first()
    if artifact is None:
        raise Http404("there is no such artifact that is visible to you")
    return artifact


def versions_of(artifact: Artifact) -> QuerySet[ArtifactVersion]:
    """Return the versions, newest first, including removed ones."""
    return artifact.versions.select_related("run", "owner", "checkpoint").prefetch_related(
        "aliases", "uses__run"
    )


def version_get(artifact: Artifact, reference: str) -> ArtifactVersion:
    """Return a version by v3, latest or an alias. Raises Http404."""
    there = versions_of(artifact).filter(removed=False)
    if reference in ("", LATEST):
        version = there.first()
    elif VERSION.fullmatch(reference) and len(reference) < 10:
        version = there.filter(number=int(reference[1:])).first()
    else:
        version = there.filter(aliases__name=reference[:40].replace("\0", "")).first()
    if version is None:
        raise Http404(f"{artifact.name} has no version {reference[:40] or LATEST}")
    return version


def version_named(user: Person, project: Project, wanted: str, field: str = "artifact") -> ArtifactVersion:
    """Return a version by NAME, NAME:v3 or NAME:alias. Raises ConfigError, which names the field."""
    name, _, reference = wanted.partition(":")
    artifact = artifacts_visible(user).filter(project=project, name=name[:80].replace("\0", "")).first()
    if artifact is None:
        names = ", ".join(Artifact.objects.filter(project=project).values_list("name", flat=True)[:20])
        raise ConfigError(
            {field: f"the project {project.slug} has no artifact {name[:80]!r}; it has {names or 'none'}"}
        )
    try:
        return version_get(artifact, reference)
    except Http404 as error:
        raise ConfigError({field: str(error)}) from error


def aliases_of(version: ArtifactVersion, newest: int | None) -> list[str]:
    """Return the aliases of a version; latest for the version with the number `newest`."""
    names = [alias.name for alias in version.aliases.all()]
    return [*([LATEST] if version.number == newest else []), *names]


def newest_number(artifact: Artifact) -> int | None:
    """Return the number of the newest version that is not removed; None if there is none."""
    return (
        artifact.versions.filter(removed=False).values_list("number", flat=True).order_by("-number").first()
    )


def version_document(version: ArtifactVersion, files: bool = False) -> dict[str, Any]:
    """Return a version for the API; with `files`, also its files."""
    artifact, checkpoint = version.artifact, version.checkpoint
    document = {
        "artifact": artifact.pk,
        "name": artifact.name,
        "type": artifact.type,
        "project": artifact.project.slug,
        "version": f"v{version.number}",
        "digest": version.digest,
        "size": version.size,
        "aliases": aliases_of(version, newest_number(artifact)),
        "metadata": version.metadata,
        "made_by": version.run_id,
        "used_by": [use.run_id for use in version.uses.all()],
        "checkpoint": checkpoint
        and {"run": checkpoint.run_id, "iteration": checkpoint.iteration, "policy": version.policy},
        "removed": version.removed,
        "created_at": version.created_at.isoformat(),
        "page": reverse("artifacts:page", args=[artifact.pk]),
    }
    if files:
        document["files"] = [
            {"path": file.path, "size": file.size, "sha256": file.sha256} for file in version.files.all()
        ]
    return document


def artifacts_document(artifacts: Iterable[Artifact]) -> list[dict[str, Any]]:
    """Return artifacts for the API and the page: name, type, project, versions, the newest version."""
    documents = []
    for artifact in artifacts:
        versions = list(versions_of(artifact))
        newest = next((version for version in versions if not version.removed), None)
        documents.append({
            "id": artifact.pk, "name": artifact.name, "type": artifact.type, "project": artifact.project.slug,
            "versions": len(versions), "latest": newest and f"v{newest.number}", "size": newest.size if newest else 0,
            "aliases": sorted({alias.name for version in versions for alias in version.aliases.all()}),
            "created_at": (newest.created_at if newest else artifact.created_at).isoformat(),
            "page": reverse("artifacts:page", args=[artifact.pk]),
        })  # fmt: skip
    return documents


def artifacts_of_run(run: Run) -> tuple[list[ArtifactVersion], list[ArtifactUse]]:
    """Return the versions that a run made, and its uses of versions."""
    made = ArtifactVersion.objects.filter(run=run).select_related("artifact__project", "checkpoint", "owner")
    used = ArtifactUse.objects.filter(run=run).select_related("version__artifact__project", "version__run")
    return list(made.prefetch_related("aliases", "uses__run").order_by("-pk")[:MOST]), list(used[:MOST])

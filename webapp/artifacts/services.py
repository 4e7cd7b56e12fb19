"""Artifacts: what a user may see, versions, aliases, uses, deletion."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Max, OuterRef, QuerySet, Subquery, Sum, prefetch_related_objects
from django.http import Http404
from django.urls import reverse
from pydantic import ValidationError

from training_core.errors import ConfigError
from troupe_client.documents import artifacts as documents
from troupe_client.documents.artifacts import LATEST, VERSION, FileBody, VersionBody, alias_valid
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, require_edit
from webapp.accounts.selectors import projects_visible
from webapp.artifacts.contents import NO_HASH, content_delete, content_missing, content_write
from webapp.artifacts.models import Artifact, ArtifactAlias, ArtifactFile, ArtifactUse, ArtifactVersion
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import checkpoint_hold, checkpoint_named, require_whole
from webapp.quotas.services import storage_held
from webapp.runs.configs import check_storable
from webapp.runs.lifecycle import run_locked
from webapp.runs.models import Run
from webapp.runs.states import TransitionRefused

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


def versions_visible() -> QuerySet[ArtifactVersion]:
    """Return all versions, with what their documents need; `newest` is the number of the artifact's newest version."""
    newest = ArtifactVersion.objects.filter(artifact=OuterRef("artifact"), removed=False).order_by("-number")
    versions = ArtifactVersion.objects.annotate(newest=Subquery(newest.values("number")[:1]))  # type: ignore[no-redef]
    return versions.select_related("artifact__project", "run", "owner", "checkpoint").prefetch_related(
        "aliases", "uses__run"
    )


def versions_of(artifact: Artifact) -> QuerySet[ArtifactVersion]:
    """Return the versions, newest first, including removed ones."""
    return versions_visible().filter(artifact=artifact)


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


def aliases_of(version: ArtifactVersion) -> list[str]:
    """Return the aliases of a version; latest for the newest one."""
    names = [alias.name for alias in version.aliases.all()]
    return [*([LATEST] if version.number == version.newest else []), *names]


def version_document(version: ArtifactVersion) -> documents.ArtifactVersion:
    """Return the document of a version of `versions_visible`."""
    return documents.ArtifactVersion(**_fields(version))


def files_document(version: ArtifactVersion) -> documents.ArtifactVersionFiles:
    """Return a version with its files."""
    fresh = versions_visible().get(pk=version.pk)
    files = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in fresh.files.all()]
    return documents.ArtifactVersionFiles(**_fields(fresh), files=files)


def _fields(version: ArtifactVersion) -> dict[str, Any]:
    artifact, checkpoint = version.artifact, version.checkpoint
    return {
        "artifact": artifact.pk,
        "name": artifact.name,
        "type": artifact.type,
        "project": artifact.project.slug,
        "version": version.ref,
        "aliases": aliases_of(version),
        "made_by": version.run_id,
        "used_by": [use.run_id for use in version.uses.all()],
        "checkpoint": checkpoint
        and {"run": checkpoint.run_id, "iteration": checkpoint.iteration, "policy": version.policy},
        "page": reverse("artifacts:page", args=[artifact.pk]),
    } | {name: getattr(version, name) for name in ("digest", "size", "metadata", "removed", "created_at")}


def artifact_documents(artifacts: Iterable[Artifact]) -> list[documents.Artifact]:
    """Return at most MOST artifacts with their newest versions."""
    rows = list(artifacts)[:MOST]
    prefetch_related_objects(rows, "aliases", "versions")
    listed = []
    for artifact in rows:
        versions = artifact.versions.all()
        newest = next((version for version in versions if not version.removed), None)
        listed.append(documents.Artifact(
            id=artifact.pk, name=artifact.name, type=artifact.type, project=artifact.project.slug,
            versions=len(versions), latest=newest and newest.ref, size=newest.size if newest else 0,
            aliases=[alias.name for alias in artifact.aliases.all()],
            created_at=(newest or artifact).created_at, page=reverse("artifacts:page", args=[artifact.pk]),
        ))  # fmt: skip
    return listed


def versions_of_run(run: Run) -> tuple[QuerySet[ArtifactVersion], QuerySet[ArtifactVersion]]:
    """Return the versions that a run made and those that it used, at most MOST each."""
    made = versions_visible().filter(run=run).order_by("-pk")[:MOST]
    return made, versions_visible().filter(uses__run=run).order_by("uses__pk")[:MOST]


@transaction.atomic
def artifacts_prune(
    user: Person, project: Project, artifacts: Iterable[Artifact], *, last: int = 1, dry: bool = False
) -> documents.ArtifactsPruned:
    """Delete the contents of versions without alias and use, except the newest `last` of each artifact; `dry` only lists them.

    Raises PermissionDenied.
    """
    require_edit(user, project)
    chosen, retained = [], []
    for artifact in artifacts:
        stored = versions_of(artifact).filter(removed=False)
        for index, version in enumerate(stored):
            reason = why_kept(version) or (f"one of the last {last}" if index < last else "")
            if reason:
                retained.append(documents.RetainedVersion(version=str(version), reason=reason))
            else:
                chosen.append(version)
    freed = bytes_freed(project, chosen)
    for version in chosen if not dry else ():
        version_remove(user, version)
    deleted = [documents.PrunedVersion(version=str(version), size=version.size) for version in chosen]
    return documents.ArtifactsPruned(deleted=deleted, kept=retained, freed=freed, dry=dry)


def bytes_freed(project: Project, versions: Iterable[ArtifactVersion]) -> int:
    """Return the bytes of the contents that only these versions have; checkpoints are stored with their runs."""
    keys = [version.pk for version in versions]
    files = ArtifactFile.objects.filter(version__artifact__project=project, version__removed=False)
    shared = set(files.exclude(version__in=keys).values_list("sha256", flat=True))
    own = dict(files.filter(version__in=keys).values_list("sha256", "size"))
    return sum(size for sha256, size in own.items() if sha256 not in shared)


PREFIX = "artifact:"
"""Prefix of a policy's model that names an artifact."""


class ContentMissing(TransitionRefused):
    """Files of a version have not been uploaded."""

    def __init__(self, hashes: list[str]) -> None:
        self.document = {"missing": hashes}
        super().__init__(f"{len(hashes)} contents are missing; upload them, then repeat the request")


def may_write(user: Person, project: Project) -> None:
    """Raises PermissionDenied for users who cannot edit, TransitionRefused if the storage quota is used up."""
    require_edit(user, project)
    if reason := storage_held(project.pk):
        raise TransitionRefused(reason.partition(": ")[2] or reason)


def version_create(
    user: Person, project: Project, body: VersionBody, run: Run | None = None
) -> ArtifactVersion:
    """Return the version with this content, created if it is new, with the body's aliases.

    Raises PermissionDenied, ContentMissing, ConfigError, TransitionRefused (quota, damaged checkpoint), Http404.
    """
    may_write(user, project)
    check_storable(body.metadata, "metadata")
    checkpoint = _checkpoint(user, project, body)
    if missing := content_missing(project, [file.sha256 for file in body.files]):
        raise ContentMissing(missing)
    return _stored(user, project, body, run, checkpoint)


@transaction.atomic
def _stored(
    user: Person, project: Project, body: VersionBody, run: Run | None, checkpoint: Checkpoint | None
) -> ArtifactVersion:
    Artifact.objects.get_or_create(project=project, name=body.name, defaults={"type": body.type})
    artifact = Artifact.objects.select_for_update().get(project=project, name=body.name)
    if artifact.type != body.type:
        raise ConfigError({"type": f"{artifact.name} is of the type {artifact.type}; choose another name"})
    digest = _digest(body, checkpoint)
    version = artifact.versions.filter(digest=digest).first()
    if version is None:
        version = ArtifactVersion.objects.create(
            artifact=artifact,
            number=(-1 if (last := artifact.versions.aggregate(last=Max("number"))["last"]) is None else last)
            + 1,
            digest=digest,
            size=checkpoint.size if checkpoint else sum(file.size for file in body.files),
            metadata=body.metadata,
            run=checkpoint.run if checkpoint else run,
            owner_id=user.pk,
            checkpoint=checkpoint,
            policy=body.checkpoint.policy if body.checkpoint else "",
        )
        ArtifactFile.objects.bulk_create(
            ArtifactFile(version=version, **file.model_dump()) for file in body.files
        )
        audit_note(user, project, "artifact.create", str(version), run=run.pk if run else "")
    elif version.removed:
        version.removed = False
        version.save(update_fields=["removed"])
    for alias in body.aliases:
        alias_set(user, version, alias)
    if checkpoint:
        checkpoint_hold(checkpoint)
    return version


def _checkpoint(user: Person, project: Project, body: VersionBody) -> Checkpoint | None:
    if body.checkpoint is None:
        return None
    checkpoint = checkpoint_named(user, body.checkpoint.run, body.checkpoint.name)
    if checkpoint.run.project_id != project.pk:
        raise ConfigError({"checkpoint.run": f"run {checkpoint.run_id} is in another project"})
    policies = checkpoint.run.config.get("policies", {})
    if body.checkpoint.policy not in policies:
        raise ConfigError({"checkpoint.policy": f"the run has {', '.join(policies) or 'no policies'}"})
    require_whole(checkpoint)
    return checkpoint


def _digest(body: VersionBody, checkpoint: Checkpoint | None) -> str:
    if checkpoint and body.checkpoint:
        lines = [f"checkpoint {checkpoint.run_id} {checkpoint.path} {body.checkpoint.policy}"]
    else:
        lines = sorted(f"{file.sha256} {file.path}" for file in body.files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@transaction.atomic
def alias_set(user: Person, version: ArtifactVersion, alias: str) -> None:
    """Point an alias to a version. Raises PermissionDenied, ConfigError."""
    project = version.artifact.project
    require_edit(user, project)
    try:
        alias_valid(alias)
    except ValueError as error:
        raise ConfigError({"alias": str(error)}) from error
    ArtifactAlias.objects.update_or_create(
        artifact=version.artifact, name=alias, defaults={"version": version}
    )
    audit_note(user, project, "artifact.alias", str(version), alias=alias)


@transaction.atomic
def alias_remove(user: Person, artifact: Artifact, alias: str) -> None:
    """Remove an alias. Raises PermissionDenied, ConfigError if there is none."""
    require_edit(user, artifact.project)
    deleted, _ = ArtifactAlias.objects.filter(artifact=artifact, name=alias).delete()
    if not deleted:
        raise ConfigError({"alias": f"{artifact.name} has no alias {alias[:40]!r}"})
    audit_note(user, artifact.project, "artifact.alias_remove", artifact.name, alias=alias)


def use_note(run: Run, version: ArtifactVersion, wanted: str) -> None:
    """Record that a run used a version."""
    ArtifactUse.objects.get_or_create(version=version, run=run, defaults={"wanted": wanted[:200]})


def why_kept(version: ArtifactVersion) -> str:
    """Return the reason against deletion; empty if there is none."""
    aliases = [alias.name for alias in version.aliases.all()]
    if aliases:
        return f"it has the alias {aliases[0]}; remove the alias first"
    use = version.uses.exclude(run=version.run).first()
    return f"run {use.run_id} used it" if use else ""


@transaction.atomic
def version_remove(user: Person, version: ArtifactVersion) -> None:
    """Delete the contents of a version that no other version has; its record remains. Raises PermissionDenied, TransitionRefused."""
    project = version.artifact.project
    require_edit(user, project)
    Artifact.objects.select_for_update().get(pk=version.artifact_id)
    if reason := why_kept(version):
        raise TransitionRefused(f"{version} is kept: {reason}")
    version.removed = True
    version.save(update_fields=["removed"])
    if version.checkpoint and not version.checkpoint.removed:
        checkpoint_hold(version.checkpoint)
    audit_note(user, project, "artifact.delete", str(version))
    hashes = set(version.files.values_list("sha256", flat=True))
    transaction.on_commit(partial(_contents_delete, project, hashes))


def _contents_delete(project: Project, hashes: set[str]) -> None:
    """Delete those of these contents that no version of the project has."""
    shared = ArtifactFile.objects.filter(
        sha256__in=hashes, version__artifact__project=project, version__removed=False
    )
    content_delete(project, hashes - set(shared.values_list("sha256", flat=True)))


def run_version(run: Run) -> ArtifactVersion | None:
    """Return the version with the files that the run stored one by one."""
    versions = ArtifactVersion.objects.filter(artifact__project=run.project_id, removed=False)
    return (
        versions.select_related("artifact__project").filter(artifact__name=f"run-{run.pk}", number=0).first()
    )


def run_file_store(user: Person, run: Run, path: str, read: Callable[[int], bytes]) -> ArtifactFile | None:
    """Store a file of the run from `read(size)`; one with the same path is replaced. Returns the file if it is new.

    Raises PermissionDenied, TransitionRefused (quota), ConfigError, Http404 (the run was removed while the file arrived).
    """
    may_write(user, run.project)
    try:
        FileBody(path=path, size=0, sha256=NO_HASH)
    except ValidationError as error:
        raise ConfigError({"path": error.errors()[0]["msg"]}) from error
    sha256, size = content_write(run.project, "", read)
    body = VersionBody(name=f"run-{run.pk}", files=[FileBody(path=path, size=size, sha256=sha256)])
    with transaction.atomic():
        if run_locked(run.pk) is None:
            raise Http404(f"run {run.pk} has been removed")
        version = run_version(run)
        known = version is not None and version.files.filter(path=path).exists()
        version = version or _stored(user, run.project, body, run, None)
        replaced = version.files.filter(path=path).exclude(sha256=sha256)
        hashes = set(replaced.values_list("sha256", flat=True))
        if replaced.delete()[0]:
            audit_note(user, run.project, "artifact.replace", str(version), path=path)
        file, _ = ArtifactFile.objects.get_or_create(
            version=version, path=path, defaults={"size": size, "sha256": sha256}
        )
        lines = sorted(f"{file.sha256} {file.path}" for file in version.files.all())
        version.digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        version.size = version.files.aggregate(total=Sum("size"))["total"]
        version.save(update_fields=["digest", "size"])
        transaction.on_commit(partial(_contents_delete, run.project, hashes))
    return None if known else file


def references_resolve(
    user: Person, project: Project, tree: Mapping[str, Any]
) -> tuple[dict[str, Any], list[tuple[ArtifactVersion, str]]]:
    """Replace policies' models such as artifact:planner:production by the checkpoint's path; also returns the versions used.

    Raises ConfigError, which names the field.
    """
    used, policies = [], {}
    sections = tree.get("policies")
    for name, policy in (sections if isinstance(sections, Mapping) else {}).items():
        model = policy.get("model") if isinstance(policy, Mapping) else None
        if isinstance(model, str) and model.startswith(PREFIX):
            field, wanted = f"policies.{name}.model", model.removeprefix(PREFIX)
            version = version_named(user, project, wanted, field)
            if version.checkpoint is None:
                raise ConfigError(
                    {field: f"{version} has files; name an artifact that was made from a checkpoint"}
                )
            try:
                require_whole(version.checkpoint)
            except TransitionRefused as error:
                raise ConfigError({field: str(error)}) from error
            used.append((version, wanted))
            path = f"runs/{version.checkpoint.run_id}/{version.checkpoint.path}/{version.policy}"
            policies[name] = {**policy, "model": path}
    if not used:
        return dict(tree), used
    return {**tree, "policies": {**tree["policies"], **policies}}, used


def uses_note(run: Run, used: Iterable[tuple[ArtifactVersion, str]]) -> None:
    """Record the versions that a launch resolved."""
    for version, wanted in used:
        use_note(run, version, wanted)

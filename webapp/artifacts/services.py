"""Changes to artifacts: versions, aliases, uses, deletion."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Max

from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, can_edit
from webapp.artifacts.bodies import VersionBody, alias_valid
from webapp.artifacts.models import Artifact, ArtifactAlias, ArtifactFile, ArtifactUse, ArtifactVersion
from webapp.artifacts.selectors import version_named
from webapp.artifacts.storage import content_delete, content_missing
from webapp.checkpoints.damage import require_whole
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.retention import checkpoint_hold
from webapp.checkpoints.selectors import checkpoint_named
from webapp.quotas.enforcement import storage_held
from webapp.runs.models import Run
from webapp.runs.permitted import check_storable
from webapp.runs.states import TransitionRefused

PREFIX = "artifact:"
"""Prefix of a policy's model that names an artifact."""


class ContentMissing(TransitionRefused):
    """Files of a version have not been uploaded; `hashes` names them."""

    def __init__(self, hashes: list[str]) -> None:
        self.hashes = hashes
        super().__init__(f"{len(hashes)} contents are missing; upload them, then repeat the request")


def may_write(user: Person, project: Project) -> None:
    """Raises PermissionDenied for users who cannot edit, TransitionRefused if the storage quota is used up."""
    if not can_edit(user, project):
        raise PermissionDenied(
            f"you cannot write to the project {project.slug}; ask an owner for the editor level"
        )
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
    if not can_edit(user, project):
        raise PermissionDenied("you may only read this project; ask an owner for the editor level")
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
    if not can_edit(user, artifact.project):
        raise PermissionDenied("you may only read this project; ask an owner for the editor level")
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
    if not can_edit(user, project):
        raise PermissionDenied("you may only read this project; ask an owner for the editor level")
    Artifact.objects.select_for_update().get(pk=version.artifact_id)
    if reason := why_kept(version):
        raise TransitionRefused(f"{version} is kept: {reason}")
    version.removed = True
    version.save(update_fields=["removed"])
    if version.checkpoint and not version.checkpoint.removed:
        checkpoint_hold(version.checkpoint)
    audit_note(user, project, "artifact.delete", str(version))
    transaction.on_commit(partial(_contents_delete, version))


def _contents_delete(version: ArtifactVersion) -> None:
    """Delete the contents that no other version of the project has."""
    project = version.artifact.project
    hashes = set(version.files.values_list("sha256", flat=True))
    shared = ArtifactFile.objects.filter(
        sha256__in=hashes, version__artifact__project=project, version__removed=False
    )
    content_delete(project, hashes - set(shared.values_list("sha256", flat=True)))


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

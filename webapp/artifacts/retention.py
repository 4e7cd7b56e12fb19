"""Deletion of the versions of artifacts that no alias and no run uses."""

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction

from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, can_edit
from webapp.artifacts.models import Artifact, ArtifactFile, ArtifactVersion
from webapp.artifacts.selectors import versions_of
from webapp.artifacts.services import version_remove, why_kept


@transaction.atomic
def artifacts_prune(
    user: Person, project: Project, artifacts: Iterable[Artifact], *, last: int = 1, dry: bool = False
) -> dict[str, Any]:
    """Delete the contents of versions without alias and use, except the newest `last` of each artifact; `dry` only lists them.

    Returns {"deleted", "kept", "freed"}: versions with their sizes, versions with the reason, and bytes. Raises PermissionDenied.
    """
    if not can_edit(user, project):
        raise PermissionDenied("you may only read this project; ask an owner for the editor level")
    chosen, retained = [], []
    for artifact in artifacts:
        stored = versions_of(artifact).filter(removed=False)
        for index, version in enumerate(stored):
            reason = why_kept(version) or (f"one of the last {last}" if index < last else "")
            if reason:
                retained.append({"version": str(version), "reason": reason})
            else:
                chosen.append(version)
    freed = bytes_freed(project, chosen)
    for version in chosen if not dry else ():
        version_remove(user, version)
    deleted = [{"version": str(version), "size": version.size} for version in chosen]
    return {"deleted": deleted, "kept": retained, "freed": freed, "dry": dry}


def bytes_freed(project: Project, versions: Iterable[ArtifactVersion]) -> int:
    """Return the bytes of the contents that only these versions have; checkpoints are stored with their runs."""
    keys = [version.pk for version in versions]
    files = ArtifactFile.objects.filter(version__artifact__project=project, version__removed=False)
    shared = set(files.exclude(version__in=keys).values_list("sha256", flat=True))
    own = dict(files.filter(version__in=keys).values_list("sha256", "size"))
    return sum(size for sha256, size in own.items() if sha256 not in shared)

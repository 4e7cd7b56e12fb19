"""Pages of artifacts: the list, one artifact, the artifacts of a run."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from training_core.errors import TroupeError
from webapp.accounts.permissions import can_edit
from webapp.artifacts.contents import LARGEST_IMAGE, Preview, content_path, file_response, preview_of
from webapp.artifacts.models import ArtifactFile, ArtifactVersion
from webapp.artifacts.services import (
    alias_remove,
    alias_set,
    aliases_of,
    artifact_documents,
    artifact_get,
    artifacts_prune,
    artifacts_visible,
    version_get,
    version_remove,
    versions_of,
    versions_of_run,
)
from webapp.common.formats import size
from webapp.runs.frame import run_context
from webapp.runs.selectors import run_get
from workers.telemetry.limits import image_type

MOST = 200
MOST_FILES = 200
"""Number of listed files of a version."""


@require_GET
def artifacts_page(request: HttpRequest) -> HttpResponse:
    """List the artifacts of the user's projects."""
    rows = artifact_documents(artifacts_visible(request.user))
    return render(request, "artifacts/list.html", {"place": "artifacts", "artifacts": rows})


@require_GET
def artifact_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the versions of an artifact, their aliases, and the runs that made and used them; the files of one version."""
    artifact = artifact_get(request.user, pk)
    versions = list(versions_of(artifact)[:MOST])
    wanted = request.GET.get("version", "")
    chosen = (
        version_get(artifact, wanted) if wanted or any(not version.removed for version in versions) else None
    )
    context = {
        "place": "artifacts",
        "artifact": artifact,
        "rows": [(version, aliases_of(version)) for version in versions],
        "chosen": chosen,
        "files": chosen.files.all()[:MOST_FILES] if chosen else [],
        "more_files": max(0, chosen.files.count() - MOST_FILES) if chosen else 0,
        "preview": _preview(chosen, request.GET.get("file", "")),
        "stored": sum(version.size for version in versions if not version.removed and not version.checkpoint),
        "aliases": artifact.aliases.select_related("version"),
        "can_edit": can_edit(request.user, artifact.project),
    }
    return render(request, "artifacts/page.html", context)


def _file(version: ArtifactVersion, path: str) -> ArtifactFile:
    """A file of a version by its path; the first one without a path. Raises Http404."""
    files = version.files.all()
    file = files.filter(path=path[:400].replace("\0", "")).first() if path else files.first()
    if file is None:
        raise Http404(f"{version} has no file {path[:80]}")
    return file


def _preview(version: ArtifactVersion | None, path: str) -> Preview | None:
    """The preview of the named file, or of the first one; None for a version without files."""
    if version is None or version.checkpoint or not version.files.exists():
        return None
    return preview_of(version, _file(version, path))


@require_GET
def image(request: HttpRequest, pk: int, version: str, path: str) -> HttpResponse:
    """Return an image of a listed type for the preview. Raises Http404 for anything else."""
    chosen = version_get(artifact_get(request.user, pk), version)
    file = _file(chosen, path)
    stored = content_path(chosen.artifact.project, file.sha256)
    if file.size > LARGEST_IMAGE or not stored.is_file():
        raise Http404("no preview")
    content = stored.read_bytes()
    if not (media_type := image_type(content)):
        raise Http404("not an image")
    return HttpResponse(content, content_type=media_type, headers={"X-Content-Type-Options": "nosniff"})


@require_POST
def artifact_prune(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete, or with the button "List" only list, the versions that no alias and no run uses."""
    artifact = artifact_get(request.user, pk)
    last = request.POST.get("last", "")
    if not last.isdecimal() or len(last) > 4:
        messages.error(request, "The number of versions to keep must be a whole number of at most 9999.")
        return redirect("artifacts:page", artifact.pk)
    dry = bool(request.POST.get("dry"))
    result = artifacts_prune(request.user, artifact.project, [artifact], last=int(last), dry=dry)
    names = ", ".join(row.version.rpartition(":")[2] for row in result.deleted[:20]) or "no version"
    verb = "Would delete" if dry else "Deleted"
    messages.success(request, f"{verb} {names}: {size(result.freed)}.")
    return redirect("artifacts:page", artifact.pk)


@require_GET
def run_artifacts_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the artifacts that a run made and used."""
    run = run_get(request.user, run_id)
    made, used = versions_of_run(run)
    context = run_context(request.user, run, "artifacts") | {"made": made, "used": used}
    return render(request, "artifacts/run.html", context)


@require_GET
def file_download(request: HttpRequest, pk: int, version: str, path: str) -> HttpResponseBase:
    """Return a file of a version."""
    return file_response(request, version_get(artifact_get(request.user, pk), version), path)


@require_POST
def alias_act(request: HttpRequest, pk: int) -> HttpResponse:
    """Point the posted alias to a version, or remove it."""
    artifact = artifact_get(request.user, pk)
    alias = request.POST.get("alias", "").strip()
    try:
        if request.POST.get("remove"):
            alias_remove(request.user, artifact, alias)
        else:
            alias_set(request.user, version_get(artifact, request.POST.get("version", "")), alias)
    except TroupeError as error:
        messages.error(request, str(error))
    return redirect("artifacts:page", artifact.pk)


@require_POST
def version_delete(request: HttpRequest, pk: int, version: str) -> HttpResponse:
    """Delete the contents of a version."""
    artifact = artifact_get(request.user, pk)
    try:
        version_remove(request.user, version_get(artifact, version))
    except TroupeError as error:
        messages.error(request, str(error))
    return redirect("artifacts:page", artifact.pk)

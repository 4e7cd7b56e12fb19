"""Pages of artifacts: the list, one artifact, the artifacts of a run."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from training_core.errors import TroupeError
from webapp.accounts.permissions import can_edit
from webapp.artifacts.downloads import file_response
from webapp.artifacts.selectors import (
    aliases_of,
    artifact_get,
    artifacts_document,
    artifacts_of_run,
    artifacts_visible,
    newest_number,
    version_get,
    versions_of,
)
from webapp.artifacts.services import alias_remove, alias_set, version_remove
from webapp.runs.frame import run_context
from webapp.runs.selectors import run_get

MOST = 200
MOST_FILES = 200
"""Number of listed files of a version."""


@require_GET
def artifacts_page(request: HttpRequest) -> HttpResponse:
    """List the artifacts of the user's projects."""
    rows = artifacts_document(artifacts_visible(request.user)[:MOST])
    return render(request, "artifacts/list.html", {"place": "artifacts", "artifacts": rows})


@require_GET
def artifact_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the versions of an artifact, their aliases, and the runs that made and used them; the files of one version."""
    artifact = artifact_get(request.user, pk)
    newest, versions = newest_number(artifact), list(versions_of(artifact)[:MOST])
    wanted = request.GET.get("version", "")
    chosen = version_get(artifact, wanted) if wanted or newest is not None else None
    context = {
        "place": "artifacts",
        "artifact": artifact,
        "rows": [(version, aliases_of(version, newest)) for version in versions],
        "chosen": chosen,
        "files": chosen.files.all()[:MOST_FILES] if chosen else [],
        "more_files": max(0, chosen.files.count() - MOST_FILES) if chosen else 0,
        "aliases": artifact.aliases.select_related("version"),
        "can_edit": can_edit(request.user, artifact.project),
    }
    return render(request, "artifacts/page.html", context)


@require_GET
def run_artifacts_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the artifacts that a run made and used."""
    run = run_get(request.user, run_id)
    made, used = artifacts_of_run(run)
    context = run_context(request.user, run, "artifacts") | {
        "made": made,
        "used": [use.version for use in used],
    }
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

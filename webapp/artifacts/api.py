"""Artifacts in the REST API: versions, contents, aliases, uses."""

from typing import Annotated, Any

from django.http.response import HttpResponseBase
from pydantic import Field
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from troupe_client.documents import artifacts as documents
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_get
from webapp.api.routes import Routes
from webapp.artifacts import services
from webapp.artifacts.contents import content_path, content_write, file_response
from webapp.runs.selectors import run_get

routes = Routes()


class Bytes(BaseParser):
    """A body of bytes, which the operation reads in chunks."""

    media_type = "application/octet-stream"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return the stream."""
        return stream


@routes.get("projects/<slug:slug>/artifacts/", name="artifacts")
def artifacts(
    user: Person, slug: str, type: Annotated[str, Field(description="Only this type.")] = ""
) -> list[documents.Artifact]:
    """Return the artifacts of a project by name, with their newest version."""
    visible = services.artifacts_visible(user).filter(project=project_get(user, slug))
    return services.artifact_documents(visible.filter(type=type) if type else visible)


@routes.post("projects/<slug:slug>/artifacts/", status=201, errors={409: documents.MissingContents})
def version_create(user: Person, slug: str, body: documents.VersionBody) -> documents.ArtifactVersionFiles:
    """Create a version of uploaded files or of a checkpoint's policy. 409 before all contents are uploaded."""
    return services.files_document(services.version_create(user, project_get(user, slug), body))


@routes.post("projects/<slug:slug>/artifacts/prune/", name="artifacts-prune", admin=True)
def artifacts_prune(user: Person, slug: str, body: documents.PruneBody) -> documents.ArtifactsPruned:
    """Delete the contents of versions that no alias and no run uses, except the newest `last` of each artifact."""
    project = project_get(user, slug)
    chosen = services.artifacts_visible(user).filter(project=project)
    if body.artifact:
        chosen = chosen.filter(pk=services.version_named(user, project, body.artifact).artifact_id)
    return services.artifacts_prune(user, project, chosen, last=body.last, dry=body.dry)


@routes.put("projects/<slug:slug>/artifact-contents/<str:sha256>/", name="artifact-content", parser=Bytes)
def content_put(user: Person, request: Request, slug: str, sha256: str) -> documents.ArtifactContent:
    """Store the body, of the type application/octet-stream. A content that is stored already is not read."""
    project = project_get(user, slug)
    services.may_write(user, project)
    path = content_path(project, sha256)
    size = path.stat().st_size if path.is_file() else content_write(project, sha256, request._request.read)[1]
    return documents.ArtifactContent(sha256=sha256, size=size)


@routes.get("artifacts/<int:pk>/", name="artifact")
def artifact(user: Person, pk: int) -> documents.ArtifactVersions:
    """Return an artifact with its versions, newest first: aliases, the run that made each, and the runs that used it."""
    chosen = services.artifact_get(user, pk)
    (document,) = services.artifact_documents([chosen])
    versions = services.versions_of(chosen)[: services.MOST]
    return documents.ArtifactVersions(
        **dict(document) | {"versions": [services.version_document(version) for version in versions]}
    )


@routes.get("artifacts/<int:pk>/versions/<str:version>/", name="artifact-version")
def version(user: Person, pk: int, version: str) -> documents.ArtifactVersionFiles:
    """Return a version with its files: v3, latest or an alias."""
    return services.files_document(services.version_get(services.artifact_get(user, pk), version))


@routes.delete("artifacts/<int:pk>/versions/<str:version>/")
def version_delete(user: Person, pk: int, version: str) -> documents.ArtifactVersion:
    """Delete the contents of a version; 409 if it has an alias or a run used it."""
    chosen = services.version_get(services.artifact_get(user, pk), version)
    services.version_remove(user, chosen)
    return services.version_document(chosen)


@routes.get(
    "artifacts/<int:pk>/versions/<str:version>/files/<path:path>",
    name="artifact-file",
    media_type="application/octet-stream",
)
def file(user: Person, request: Request, pk: int, version: str, path: str) -> HttpResponseBase:
    """Return the content of a file; `Range: bytes=N-` continues a download."""
    return file_response(
        request._request, services.version_get(services.artifact_get(user, pk), version), path
    )


@routes.post("artifacts/<int:pk>/aliases/", name="artifact-aliases")
def alias(user: Person, pk: int, body: documents.AliasBody) -> documents.ArtifactAlias:
    """Point an alias to a version; without a version, remove it."""
    chosen = services.artifact_get(user, pk)
    if not body.version:
        services.alias_remove(user, chosen, body.alias)
        return documents.ArtifactAlias(alias=body.alias, version=None)
    version = services.version_get(chosen, body.version)
    services.alias_set(user, version, body.alias)
    return documents.ArtifactAlias(alias=body.alias, version=version.ref)


@routes.get("runs/<str:run_id>/artifacts/", name="run-artifacts")
def run_artifacts(user: Person, run_id: str) -> documents.RunArtifacts:
    """Return the versions that a run made and used."""
    made, used = services.versions_of_run(run_get(user, run_id))
    return documents.RunArtifacts(
        made=[services.version_document(version) for version in made],
        used=[services.version_document(version) for version in used],
    )


@routes.post("runs/<str:run_id>/artifacts/", status=201, errors={409: documents.MissingContents})
def run_version_create(
    user: Person, run_id: str, body: documents.VersionBody
) -> documents.ArtifactVersionFiles:
    """Create a version that this run made; the body is that of a project's artifacts."""
    run = run_get(user, run_id)
    return services.files_document(services.version_create(user, run.project, body, run))


@routes.post("runs/<str:run_id>/artifacts/use/", name="run-artifact-use")
def run_use(user: Person, run_id: str, body: documents.UseBody) -> documents.ArtifactVersionFiles:
    """Record that a run uses a version, and return it with its files."""
    run = run_get(user, run_id)
    version = services.version_named(user, run.project, body.artifact)
    services.may_write(user, run.project)
    services.use_note(run, version, body.artifact)
    return services.files_document(version)

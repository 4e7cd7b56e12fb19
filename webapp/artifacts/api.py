"""Artifacts in the REST API: versions, contents, aliases, uses."""

from typing import Any

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.errors import ConfigError
from webapp.accounts.models import Project
from webapp.accounts.selectors import project_get
from webapp.api.queries import text
from webapp.api.schema import JSON, parameter
from webapp.artifacts.bodies import version_body
from webapp.artifacts.downloads import file_response
from webapp.artifacts.models import ArtifactVersion
from webapp.artifacts.retention import artifacts_prune
from webapp.artifacts.selectors import (
    artifact_get,
    artifacts_document,
    artifacts_of_run,
    artifacts_visible,
    version_document,
    version_get,
    version_named,
    versions_of,
)
from webapp.artifacts.services import (
    ContentMissing,
    alias_remove,
    alias_set,
    may_write,
    use_note,
    version_create,
    version_remove,
)
from webapp.artifacts.storage import content_path, content_write
from webapp.runs.models import Run
from webapp.runs.selectors import run_get

MOST = 500


class Bytes(BaseParser):
    """A body of bytes, read by the view in chunks."""

    media_type = "application/octet-stream"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return the stream."""
        return stream


def _create(request: Request, project: Project, run: Run | None) -> Response:
    try:
        version = version_create(request.user, project, version_body(request.data), run)
    except ContentMissing as missing:
        return Response({"detail": str(missing), "missing": missing.hashes}, status=409)
    return Response(version_document(version, files=True), status=201)


class ProjectArtifacts(APIView):
    """Artifacts of a project."""

    @extend_schema(parameters=[parameter("type", str, "only this type")], responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """Return the artifacts by name, with their newest version."""
        artifacts = artifacts_visible(request.user).filter(project=project_get(request.user, slug))
        if kind := text(request, "type"):
            artifacts = artifacts.filter(type=kind)
        return Response({"results": artifacts_document(artifacts[:MOST])})

    @extend_schema(request=JSON, responses={201: JSON, 409: JSON})
    def post(self, request: Request, slug: str) -> Response:
        """Create a version of {"name", "type", "files": [{"path", "size", "sha256"}] or "checkpoint": {"run", "name", "policy"},
        "aliases", "metadata"}. 409 with {"missing": hashes} before all contents are uploaded.
        """
        return _create(request, project_get(request.user, slug), None)


class ArtifactPruneSerializer(serializers.Serializer[Any]):
    """Which versions to delete."""

    artifact = serializers.CharField(default="", allow_blank=True, max_length=80)
    """Only this artifact."""
    last = serializers.IntegerField(default=1, min_value=0, max_value=10_000)
    dry = serializers.BooleanField(default=False)


class PruneArtifacts(APIView):
    """Retention of a project's artifacts."""

    @extend_schema(request=ArtifactPruneSerializer, responses=JSON)
    def post(self, request: Request, slug: str) -> Response:
        """Delete the contents of versions that no alias and no run uses, except the newest `last` of each artifact."""
        project = project_get(request.user, slug)
        wanted = ArtifactPruneSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        name, last, dry = (wanted.validated_data[field] for field in ("artifact", "last", "dry"))
        artifacts = artifacts_visible(request.user).filter(project=project)
        if name:
            artifacts = artifacts.filter(pk=version_named(request.user, project, name).artifact_id)
        return Response(artifacts_prune(request.user, project, artifacts, last=last, dry=dry))


class ArtifactContent(APIView):
    """A content, by its SHA-256."""

    parser_classes = (Bytes,)

    @extend_schema(request=OpenApiTypes.BINARY, responses={200: JSON, 409: JSON})
    def put(self, request: Request, slug: str, sha256: str) -> Response:
        """Store the body, of the type application/octet-stream. A content that is stored already is not read."""
        project = project_get(request.user, slug)
        may_write(request.user, project)
        path = content_path(project, sha256)
        size = (
            path.stat().st_size if path.is_file() else content_write(project, sha256, request._request.read)
        )
        return Response({"sha256": sha256, "size": size})


class ArtifactDetail(APIView):
    """One artifact."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int) -> Response:
        """Return its versions, newest first, with aliases, the run that made each, and the runs that used it."""
        artifact = artifact_get(request.user, pk)
        (document,) = artifacts_document([artifact])
        return Response(
            document | {"versions": [version_document(version) for version in versions_of(artifact)[:MOST]]}
        )


class VersionDetail(APIView):
    """One version: v3, latest or an alias."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int, version: str) -> Response:
        """Return the version with its files."""
        return Response(version_document(version_get(artifact_get(request.user, pk), version), files=True))

    @extend_schema(responses={200: JSON, 409: JSON})
    def delete(self, request: Request, pk: int, version: str) -> Response:
        """Delete its contents; 409 if it has an alias or a run used it."""
        chosen = version_get(artifact_get(request.user, pk), version)
        version_remove(request.user, chosen)
        return Response(version_document(chosen))


class VersionFile(APIView):
    """A file of a version."""

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Request, pk: int, version: str, path: str) -> HttpResponseBase:
        """Return the content; `Range: bytes=N-` continues a download."""
        return file_response(request._request, version_get(artifact_get(request.user, pk), version), path)


class Aliases(APIView):
    """Aliases of an artifact."""

    @extend_schema(request=JSON, responses=JSON)
    def post(self, request: Request, pk: int) -> Response:
        """Point {"alias"} to {"version": v3, latest or an alias}; without a version, remove the alias."""
        artifact = artifact_get(request.user, pk)
        alias, wanted = _words(request, "alias", "version")
        if not wanted:
            alias_remove(request.user, artifact, alias)
            return Response({"alias": alias, "version": None})
        version = version_get(artifact, wanted)
        alias_set(request.user, version, alias)
        return Response({"alias": alias, "version": f"v{version.number}"})


class RunArtifacts(APIView):
    """Artifacts of a run."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Return {"made": [version], "used": [version]}."""
        made, used = artifacts_of_run(run_get(request.user, run_id))
        return Response({
            "made": [version_document(version) for version in made],
            "used": [version_document(use.version) for use in used],
        })  # fmt: skip

    @extend_schema(request=JSON, responses={201: JSON, 409: JSON})
    def post(self, request: Request, run_id: str) -> Response:
        """Create a version that this run made; the body is that of a project's artifacts."""
        run = run_get(request.user, run_id)
        return _create(request, run.project, run)


class RunUses(APIView):
    """Versions that a run uses."""

    @extend_schema(request=JSON, responses=JSON)
    def post(self, request: Request, run_id: str) -> Response:
        """Record that the run uses {"artifact": NAME, NAME:v3 or NAME:alias}; returns the version with its files."""
        run = run_get(request.user, run_id)
        (wanted,) = _words(request, "artifact")
        version: ArtifactVersion = version_named(request.user, run.project, wanted)
        may_write(request.user, run.project)
        use_note(run, version, wanted)
        return Response(version_document(version, files=True))


def _words(request: Request, *names: str) -> list[str]:
    body = request.data if isinstance(request.data, dict) else {}
    words = [body.get(name, "") for name in names]
    if not all(isinstance(word, str) for word in words):
        raise ConfigError(dict.fromkeys(names, "give text"))
    return words

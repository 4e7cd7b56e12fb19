"""Checkpoints in the REST API: fork, download, pin, delete, lineage."""

from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import text
from webapp.api.schema import parameter
from webapp.api.serializers import CheckpointSerializer, RunSerializer
from webapp.checkpoints.downloads import checkpoint_download, download_response
from webapp.checkpoints.forking import run_fork_named
from webapp.checkpoints.lineage import lineage
from webapp.checkpoints.retention import checkpoint_do, checkpoints_prune
from webapp.checkpoints.selectors import checkpoint_named
from webapp.runs.selectors import run_get

JSON = OpenApiTypes.OBJECT


class ForkSerializer(serializers.Serializer[Any]):
    """A run that starts from a checkpoint."""

    overrides = serializers.DictField(required=False, help_text="Dotted field paths of the config to values.")
    name = serializers.CharField(required=False, max_length=120, allow_blank=True)
    tags = serializers.ListField(child=serializers.CharField(max_length=60), required=False, max_length=20)

    def to_internal_value(self, data: Any) -> Any:
        """Raises ValidationError for unknown keys: a typing error must not launch something else."""
        unknown = set(data) - set(self.fields) if isinstance(data, dict) else set()
        if unknown:
            raise serializers.ValidationError({key: ["there is no such field"] for key in sorted(unknown)})
        return super().to_internal_value(data)


class Fork(APIView):
    """A new run from a checkpoint."""

    @extend_schema(request=ForkSerializer, responses={201: JSON, 400: JSON, 409: JSON})
    def post(self, request: Request, run_id: str, name: str) -> Response:
        """Launch a run with the parent's config and overrides. `name`: last, best or an iteration."""
        wanted = ForkSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        data = wanted.validated_data
        run = run_fork_named(
            request.user, run_id, name, data.get("overrides"), data.get("name", ""), data.get("tags", [])
        )
        return Response(RunSerializer(run_get(request.user, run.pk)).data, status=201)


class Downloading(APIView):
    """A checkpoint's models."""

    @extend_schema(
        parameters=[parameter("policy", str, "only this policy; default: all policies")],
        responses={(200, "application/x-tar"): OpenApiTypes.BINARY, 409: JSON},
    )
    def get(self, request: Request, run_id: str, name: str) -> StreamingHttpResponse:
        """Return a tar with a folder per policy: config.json, model.safetensors, the tokenizer, a model card.

        For small networks it contains the whole checkpoint, with its config.toml.
        """
        checkpoint = checkpoint_named(request.user, run_id, name)
        download = checkpoint_download(request.user, checkpoint, text(request, "policy"))
        return download_response(request._request, download)


class CheckpointAct(APIView):
    """Actions on a checkpoint: pin, unpin or delete."""

    act = "pin"

    @extend_schema(request=None, responses={200: CheckpointSerializer, 409: JSON})
    def post(self, request: Request, run_id: str, name: str) -> Response:
        """Return the updated checkpoint; 409 if something prevents the action."""
        checkpoint = checkpoint_named(request.user, run_id, name)
        return Response(CheckpointSerializer(checkpoint_do(request.user, checkpoint, self.act)).data)


class PruneSerializer(serializers.Serializer[Any]):
    """The number of checkpoints to keep; the others are deleted."""

    last = serializers.IntegerField(min_value=0, max_value=10_000)
    best = serializers.IntegerField(min_value=0, max_value=10_000, default=1)
    dry = serializers.BooleanField(default=False, help_text="Only report the checkpoints to delete.")


class Prune(APIView):
    """Delete all but the last and the best checkpoints of a run."""

    @extend_schema(request=PruneSerializer, responses=JSON)
    def post(self, request: Request, run_id: str) -> Response:
        """Return {"deleted": [iterations], "kept": [iterations], "bytes": freed}. Pinned and forked ones are kept."""
        wanted = PruneSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        return Response(
            checkpoints_prune(request.user, run_get(request.user, run_id), **wanted.validated_data)
        )


class Lineage(APIView):
    """Ancestors and descendants of a run."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Return a tree from the oldest ancestor: {id, name, state, forked_at, success, here, page, forks: [...]}."""
        return Response(lineage(request.user, run_get(request.user, run_id)).document())

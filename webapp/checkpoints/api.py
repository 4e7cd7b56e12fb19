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
from webapp.checkpoints.downloads import checkpoint_download, download_response
from webapp.checkpoints.lineage import lineage
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.retention import checkpoint_do, checkpoints_prune
from webapp.checkpoints.selectors import checkpoint_named
from webapp.runs.selectors import run_get


class CheckpointSerializer(serializers.ModelSerializer[Checkpoint]):
    """A checkpoint."""

    class Meta:
        model = Checkpoint
        exclude = ("cursor",)


JSON = OpenApiTypes.OBJECT


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


class RunCheckpoints(APIView):
    """Checkpoints of a run."""

    @extend_schema(responses=CheckpointSerializer(many=True))
    def get(self, request: Request, run_id: str) -> Response:
        """Return the checkpoints newest first, including removed ones."""
        rows = run_get(request.user, run_id).checkpoints.order_by("-iteration", "-pk")
        return Response({"results": CheckpointSerializer(rows, many=True).data})

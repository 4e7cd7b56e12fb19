"""Quotas in the REST API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.selectors import project_get
from webapp.api.schema import JSON
from webapp.quotas.selectors import quota_document
from webapp.quotas.services import quota_set


class QuotaSerializer(serializers.Serializer[Any]):
    """Limits to change; null removes a limit, missing fields are unchanged."""

    runs = serializers.IntegerField(min_value=0, allow_null=True, required=False, help_text="concurrent runs")
    cpus = serializers.FloatField(
        min_value=0, allow_null=True, required=False, help_text="concurrently used CPU cores"
    )
    gpus = serializers.FloatField(
        min_value=0, allow_null=True, required=False, help_text="concurrently used GPUs"
    )
    points = serializers.IntegerField(min_value=0, allow_null=True, required=False, help_text="stored points")
    gigabytes = serializers.FloatField(
        min_value=0, allow_null=True, required=False, help_text="10^9 bytes of transcripts and checkpoints"
    )


class QuotaDetail(APIView):
    """Limits and usage of a project."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """Return the limits (null: none) and the current usage, by the same names."""
        return Response(quota_document(project_get(request.user, slug)))

    @extend_schema(request=QuotaSerializer, responses={200: JSON, 400: JSON})
    def post(self, request: Request, slug: str) -> Response:
        """Change some limits; owners only, unless an administrator has locked them."""
        wanted = QuotaSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        project = project_get(request.user, slug)
        quota_set(request.user, project, wanted.validated_data)
        return Response(quota_document(project))

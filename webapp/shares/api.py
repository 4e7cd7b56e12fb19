"""Share links in the REST API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.selectors import project_get
from webapp.api.schema import JSON
from webapp.shares.kinds import KINDS
from webapp.shares.selectors import share_document, share_get, shares_list
from webapp.shares.services import DAYS, LONGEST, share_make, share_path, share_revoke


class ShareSerializer(serializers.Serializer[Any]):
    """The fields of a new link."""

    kind = serializers.ChoiceField(sorted(KINDS))
    target = serializers.CharField(
        max_length=2000,
        help_text="A run's id; runs=a,b (the query of a comparison's address); a report's id.",
    )
    title = serializers.CharField(max_length=200, default="", allow_blank=True)
    days = serializers.IntegerField(
        min_value=1, max_value=LONGEST, default=DAYS, allow_null=True, help_text="null: until it is revoked"
    )


class Shares(APIView):
    """The read-only links of a project."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """Return the links newest first, without their secrets."""
        rows = shares_list(project_get(request.user, slug)).select_related("project")
        return Response({"results": [share_document(share) for share in rows]})

    @extend_schema(request=ShareSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request, slug: str) -> Response:
        """Create a link; `link` is returned only in this response."""
        wanted = ShareSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        share, secret = share_make(request.user, project_get(request.user, slug), **wanted.validated_data)
        link = request.build_absolute_uri(share_path(secret))
        return Response(share_document(share) | {"link": link}, status=201)


class ShareRevoke(APIView):
    """End a link."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, slug: str, pk: int) -> Response:
        """Return the revoked link."""
        return Response(share_document(share_revoke(request.user, share_get(request.user, slug, pk))))

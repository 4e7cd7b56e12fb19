"""Provenance in the REST API."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.schema import JSON
from webapp.provenance.selectors import provenance_document
from webapp.runs.selectors import run_get


class RunProvenance(APIView):
    """Code, machines and data of a run."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Return {"launch", "attempts", "packages"}: command, repositories with commit and diff, machine, hashes of code and data."""
        return Response(provenance_document(run_get(request.user, run_id)))

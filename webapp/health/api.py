"""Findings in the REST API."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import choice
from webapp.api.schema import JSON
from webapp.api.serializers import StrictSerializer
from webapp.health import services
from webapp.health.forking import finding_fork
from webapp.health.models import Finding
from webapp.health.selectors import finding_document, finding_get, findings_list
from webapp.runs.selectors import run_get
from webapp.runs.serializers import RunSerializer


class Findings(APIView):
    """Health findings of a run."""

    @extend_schema(
        parameters=[OpenApiParameter("state", str, description="open, resolved or dismissed")], responses=JSON
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return findings, open ones first, with evidence, cause and remedy."""
        run = run_get(request.user, run_id)
        return Response({"results": findings_list(run, choice(request, "state", Finding.State.values))})


class FindingAct(APIView):
    """Actions on a finding: dismiss or reopen."""

    act = "dismiss"

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, run_id: str, pk: int) -> Response:
        """Return the updated finding."""
        acts = {"dismiss": services.finding_dismiss, "reopen": services.finding_reopen}
        return Response(finding_document(acts[self.act](request.user, finding_get(request.user, run_id, pk))))


class FindingForkSerializer(StrictSerializer):
    """The changes of the fork."""

    overrides = serializers.DictField(
        required=False,
        help_text="Dotted field paths to values; default: the edits of the finding's rule.",
    )


class FindingFork(APIView):
    """A fork from a checkpoint before the problem."""

    @extend_schema(request=FindingForkSerializer, responses={201: JSON, 400: JSON, 409: JSON})
    def post(self, request: Request, run_id: str, pk: int) -> Response:
        """Fork the run at its last good (or best) checkpoint, once per finding."""
        wanted = FindingForkSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        finding = finding_get(request.user, run_id, pk)
        settings = services.settings_of(finding.run)
        run = finding_fork(request.user, finding, settings, wanted.validated_data.get("overrides"))
        return Response(RunSerializer(run_get(request.user, run.pk)).data, status=201)

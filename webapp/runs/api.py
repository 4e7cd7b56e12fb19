"""REST API of one run: its record and its log."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import number
from webapp.api.schema import JSON, parameter
from webapp.runs.logs import log_lines
from webapp.runs.selectors import run_get
from webapp.runs.serializers import LogLineSerializer, RunSerializer


class RunDetail(APIView):
    """One run."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Return summary, config and facts."""
        return Response(RunSerializer(run_get(request.user, run_id), context={"detail": True}).data)


class RunLogs(APIView):
    """Log of a run."""

    @extend_schema(
        parameters=[
            parameter("after", int, "only lines with a higher id"),
            parameter("limit", int, "at most 2000"),
        ],
        responses=LogLineSerializer(many=True),
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return the last lines, or those after an id."""
        run = run_get(request.user, run_id)
        limit = min(number(request, "limit", 500, 1), 2000)
        rows = log_lines(run, number(request, "after", 0), limit)
        return Response({"results": LogLineSerializer(rows, many=True).data})

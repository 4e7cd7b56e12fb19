"""REST API of one run: its record and its log."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import choice, number, text
from webapp.api.schema import JSON, parameter
from webapp.runs.logs import LEVELS, MOST, LineFilter, log_lines
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
            parameter("after", int, "only lines with a higher id, oldest first; 0: from the first line"),
            parameter("before", int, "only lines with a lower id"),
            parameter("limit", int, "at most 2000"),
            parameter("source", str, "only lines of this source"),
            parameter("level", str, f"only lines of this level and above: {', '.join(LEVELS)}"),
            parameter("q", str, "only lines with this text in their source or message"),
        ],
        responses=LogLineSerializer(many=True),
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return the last lines, or those after an id. A full page after an id is followed by another one: ask again after its last id."""
        run = run_get(request.user, run_id)
        limit = min(number(request, "limit", 500, 1), MOST)
        chosen = LineFilter(text(request, "source"), choice(request, "level", LEVELS), text(request, "q"))
        after, before = (
            number(request, name, 0) if request.query_params.get(name) else None
            for name in ("after", "before")
        )
        rows = log_lines(run, after, before, limit, chosen)
        return Response({"results": LogLineSerializer(rows, many=True).data})

"""The API of timelines."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import number
from webapp.api.schema import JSON, parameter
from webapp.runs.selectors import run_get
from webapp.timeline.selectors import timeline_document, timeline_read


class RunTimeline(APIView):
    """Spans of work of a run."""

    @extend_schema(
        parameters=[
            parameter("first", int, "first iteration (default: ten before the last)"),
            parameter("last", int, "last iteration (default: the latest)"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Lanes with their spans (seconds since the epoch), seconds by phase, and seconds waited."""
        run = run_get(request.user, run_id)
        first, last = (
            number(request, name, 0) if request.query_params.get(name) else None for name in ("first", "last")
        )
        return Response(timeline_document(timeline_read(run, first, last)))

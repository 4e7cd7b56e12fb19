"""The API of timelines."""

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import number
from webapp.api.schema import JSON, parameter
from webapp.runs.selectors import run_get
from webapp.timeline.forms import moments_read
from webapp.timeline.selectors import timeline_between, timeline_document, timeline_read


class RunTimeline(APIView):
    """Spans of work of a run."""

    @extend_schema(
        parameters=[
            parameter("first", int, "first iteration (default: ten before the last)"),
            parameter("last", int, "last iteration (default: the latest)"),
            parameter("from", float, "instead of iterations: first moment, seconds since the epoch"),
            parameter("to", float, "last moment, seconds since the epoch"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Lanes with their spans (seconds since the epoch), seconds by phase and waited, waits by iteration, who waits for whom."""
        run = run_get(request.user, run_id)
        start, end = (request.query_params.get(name, "") for name in ("from", "to"))
        if start or end:
            moments = moments_read(start, end)
            if moments is None:
                raise ParseError(
                    f"from={start[:40]!r}, to={end[:40]!r}: give two moments in order, seconds since the epoch"
                )
            return Response(timeline_document(timeline_between(run, *moments)))
        first, last = (
            number(request, name, 0) if request.query_params.get(name) else None for name in ("first", "last")
        )
        return Response(timeline_document(timeline_read(run, first, last)))

"""The API of timelines."""

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotFound, ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.agents.registry import agent_pages
from webapp.api.queries import choice, number
from webapp.api.schema import JSON, parameter
from webapp.runs.selectors import run_get
from webapp.timeline.anatomy import ORDERS, anatomy_document, anatomy_read
from webapp.timeline.forms import LARGEST, moments_read
from webapp.timeline.selectors import timeline_between, timeline_document, timeline_read


class RunTimeline(APIView):
    """Spans of work of a run."""

    @extend_schema(
        parameters=[
            parameter("first", int, "first iteration (default: ten before the last)"),
            parameter("last", int, "last iteration (default: the latest)"),
            parameter("from", float, "instead of iterations: start time, seconds since the epoch"),
            parameter("to", float, "end time, seconds since the epoch"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return lanes with their spans (seconds since the epoch), seconds by phase and waited, waits by iteration, waits between lanes."""
        run = run_get(request.user, run_id)
        start, end = (request.query_params.get(name, "") for name in ("from", "to"))
        if start or end:
            moments = moments_read(start, end)
            if moments is None:
                raise ParseError(
                    f"from={start[:40]!r}, to={end[:40]!r}: give two times in order, seconds since the epoch"
                )
            return Response(timeline_document(timeline_between(run, *moments)))
        first, last = (
            number(request, name, 0) if request.query_params.get(name) else None for name in ("first", "last")
        )
        return Response(timeline_document(timeline_read(run, first, last)))


class RunBatch(APIView):
    """The batch of one iteration's update."""

    @extend_schema(
        parameters=[parameter("sort", str, f"one of {', '.join(ORDERS)} (default: start)")], responses=JSON
    )
    def get(self, request: Request, run_id: str, iteration: int) -> Response:
        """Return every episode of the batch: facts, times (seconds since the epoch), stages by policy version, shares of roles."""
        run = run_get(request.user, run_id)
        sort = choice(request, "sort", ORDERS) or "start"
        anatomy = anatomy_read(run, iteration, sort) if iteration <= LARGEST else None
        if anatomy is None or not anatomy.members:
            why = agent_pages(run.config).no_batches
            more = f": {why}; see the timeline" if why else ""
            raise NotFound(f"there is no recorded batch of iteration {iteration}{more}")
        return Response(anatomy_document(anatomy))

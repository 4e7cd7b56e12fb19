"""Sweeps in the REST API."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.errors import ConfigError
from webapp.api.queries import choice, number, text
from webapp.api.schema import JSON, parameter
from webapp.experiments.bodies import body_of, project_of, provenance_of
from webapp.experiments.services import sweep_create, sweep_stop
from webapp.experiments.sweep_forms import plan_document, plan_from_body
from webapp.experiments.sweep_selectors import sweep_document, sweep_get, sweep_summary, sweeps_visible
from webapp.metrics.headline import HEADLINE

MOST = 500
SWEEP_KEYS = {
    "preset",
    "overrides",
    "axes",
    "seeds",
    "method",
    "separate_processes",
    "name",
    "project",
    "tags",
    "provenance",
}


class Sweeps(APIView):
    """Runs that were launched together."""

    @extend_schema(
        operation_id="v1_sweeps_list", parameters=[parameter("limit", int, "at most 500")], responses=JSON
    )
    def get(self, request: Request) -> Response:
        """Return the caller's sweeps, newest first, with counts of their runs."""
        sweeps = sweeps_visible(request.user)[: min(number(request, "limit", 50, 1), MOST)]
        return Response({"results": [sweep_summary(sweep) for sweep in sweeps]})

    @extend_schema(request=JSON, responses={201: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Launch {"preset", "overrides", "axes": {field: [values]}, "seeds", "method": "grid"|"list", "separate_processes": false,
        "name", "project", "tags"}: all of its runs, or none with one message per field path.
        """
        body = body_of(request, SWEEP_KEYS)
        name, tags = body.get("name", ""), body.get("tags", [])
        if not isinstance(name, str):
            raise ConfigError({"name": "give text"})
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise ConfigError({"tags": "give a list of words"})
        project = project_of(request.user, body.get("project", ""))
        sweep = sweep_create(request.user, project, plan_from_body(body), name, tags, provenance_of(body))
        made = sweep_get(request.user, sweep.pk)
        return Response(sweep_document(request.user, made), status=201)


class SweepPlans(APIView):
    """Preview of a sweep."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Return the runs that the sweep would launch, and their cost; nothing is created."""
        plan = plan_from_body(body_of(request, SWEEP_KEYS))
        if plan.errors:
            raise ConfigError(plan.errors)
        return Response(plan_document(plan))


class SweepDetail(APIView):
    """One sweep."""

    @extend_schema(
        parameters=[
            parameter("sort", str, "a varied field or a headline metric; -NAME: descending"),
            parameter(
                "metric",
                str,
                f"the metric to rank points by: one of {', '.join(HEADLINE)}; default: eval/success, or eval/return if no run has it",
            ),
        ],
        responses=JSON,
    )
    def get(self, request: Request, pk: int) -> Response:
        """Return its runs with their values, and its points (everything except the seed) with mean and sd."""
        metric = choice(request, "metric", HEADLINE) or ""
        sweep = sweep_get(request.user, pk)
        return Response(sweep_document(request.user, sweep, text(request, "sort"), metric))


class SweepStop(APIView):
    """Stop a sweep."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, pk: int) -> Response:
        """Stop the runs that have not ended: [{"id", "ok", "detail"}]."""
        return Response({"results": sweep_stop(request.user, sweep_get(request.user, pk))})

"""Media in the REST API: names, values, contents, heat maps."""

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import number, text
from webapp.api.schema import JSON, parameter
from webapp.media.models import MediaValue
from webapp.media.selectors import heat_map, names_of, values_of
from webapp.runs.selectors import run_get

DAY = "private, max-age=86400, immutable"
"""A stored value never changes."""


class RunMedia(APIView):
    """Media of a run."""

    @extend_schema(
        parameters=[
            parameter("name", str, "return the values of this name; default: return the names"),
            parameter("after", int, "only values after this id"),
            parameter("limit", int, "maximum number of values (default 100, at most 500)"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return {"results": [{name, kind, values, first_step, last_step}]}, or with a name {"results": [value], "next": id or null}."""
        run = run_get(request.user, run_id)
        name = text(request, "name")
        if not name:
            return Response({"results": [vars(row) for row in names_of(values_of(run)).get(run.pk, [])]})
        most = min(number(request, "limit", 100, 1), 500)
        rows = values_of(run).filter(name=name, pk__gt=number(request, "after", 0)).defer("data")
        values = list(rows.order_by("pk")[: most + 1])
        results = [_document(value) for value in values[:most]]
        return Response({"results": results, "next": results[-1]["id"] if len(values) > most else None})


def _document(value: MediaValue) -> dict[str, Any]:
    fields = ("name", "kind", "step", "attempt", "time", "position", "caption", "media_type", "size")
    return {"id": value.pk} | {name: getattr(value, name) for name in fields}


class MediaContent(APIView):
    """A value of a run's media."""

    @extend_schema(
        operation_id="v1_runs_media_value_retrieve",
        responses={(200, "image/*"): OpenApiTypes.BINARY, (200, "application/json"): JSON},
    )
    def get(self, request: Request, run_id: str, pk: int) -> HttpResponse:
        """Return the file of an image, {"counts", "edges"} of a histogram, {"columns", "rows"} of a table, or {"text"}."""
        value = get_object_or_404(MediaValue, pk=pk, run=run_get(request.user, run_id))
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": DAY}
        if value.kind == "image":
            return HttpResponse(bytes(value.data), content_type=value.media_type, headers=headers)
        return JsonResponse(value.content, headers=headers)


class MediaHeatMap(APIView):
    """Histograms of a run over the steps."""

    @extend_schema(parameters=[parameter("name", str, "name of the histograms")], responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Return {"steps", "edges", "shares", "counts"}: the share of each step's values in each bin of a common grid. Of many
        steps, 200 evenly chosen ones.
        """
        return Response(heat_map(run_get(request.user, run_id), text(request, "name")))

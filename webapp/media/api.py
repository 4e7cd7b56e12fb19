"""Media in the REST API: names, values, contents, heat maps."""

from typing import Annotated

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from pydantic import Field
from rest_framework.request import Request

from troupe_client.documents import media as documents
from webapp.accounts.permissions import Person
from webapp.api.routes import Routes
from webapp.media.models import MediaValue
from webapp.media.services import heat_map, names_of, values_of
from webapp.runs.selectors import run_get

routes = Routes()
REVALIDATED = "private, no-cache"
"""A stored value never changes, but access to it may end: a browser revalidates it each time, for which the value is not read."""


@routes.get("runs/<str:run_id>/media/", name="run-media")
def run_media(
    user: Person,
    run_id: str,
    name: Annotated[str, Field(description="Return the values of this name; default: the names.")] = "",
    after: Annotated[int, Field(ge=0, lt=2**63, description="Only values after this id.")] = 0,
    limit: Annotated[int, Field(ge=1, description="Maximum number of values, at most 500.")] = 100,
) -> documents.RunMedia:
    """Return the names of a run's media, or the values of one name."""
    rows = values_of(run := run_get(user, run_id))
    if not name:
        return documents.RunMedia(results=names_of(rows).get(run.pk, []))
    most = min(limit, 500)
    values = rows.filter(name=name, pk__gt=after).defer("data").order_by("pk")[: most + 1]
    fields = documents.MediaValue.model_fields
    results = [documents.MediaValue(**{field: getattr(row, field) for field in fields}) for row in values]
    return documents.RunMedia(
        results=results[:most], next=results[most - 1].id if len(results) > most else None
    )


@routes.get("runs/<str:run_id>/media/heat-map/", name="media-heat-map")
def run_heat_map(
    user: Person, run_id: str, name: Annotated[str, Field(description="Name of the histograms.")] = ""
) -> documents.HeatMap:
    """Return the histograms of a run over the steps; of many steps, 200 evenly chosen ones."""
    return heat_map(run_get(user, run_id), name)


@routes.get(
    "runs/<str:run_id>/media/<int:pk>/",
    name="media-content",
    media_type="image/*",
    operation_id="v1_runs_media_value_retrieve",
)
def content(user: Person, request: Request, run_id: str, pk: int) -> HttpResponse:
    """Return the file of an image, {"counts", "edges"} of a histogram, {"columns", "rows"} of a table, or {"text"}."""
    value = get_object_or_404(MediaValue.objects.defer("data"), pk=pk, run=run_get(user, run_id))
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": REVALIDATED, "ETag": f'"{run_id}-{pk}"'}
    if request.headers.get("If-None-Match", "").removeprefix("W/") == headers["ETag"]:
        return HttpResponse(status=304, headers=headers)
    if value.kind == "image":
        return HttpResponse(bytes(value.data), content_type=value.media_type, headers=headers)
    return JsonResponse(value.content, headers=headers)

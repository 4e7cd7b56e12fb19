"""REST API of metrics: series to draw, as CSV with one row for each stored point; expressions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from django.http.response import HttpResponseBase
from pydantic import BaseModel, Field
from rest_framework.request import Request

from training_core.errors import ConfigError
from troupe_client.documents import metrics as documents
from troupe_client.documents.base import Count
from webapp.accounts.permissions import Person
from webapp.api.routes import Routes, Words
from webapp.common.attachments import stream
from webapp.metrics.expressions import expression_read
from webapp.metrics.models import Series
from webapp.metrics.names import BadPattern, NameQuery
from webapp.metrics.points import Points
from webapp.metrics.selectors import DEFAULT_POINTS, points_read, series_read
from webapp.metrics.selectors import keys as series_keys
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from workers.http import cell_text

routes = Routes()
MOST_POINTS = 10_000
LAST_STEP = 2**62
HEADER = "metric,attempt,step,time,value\n"
AT_ONCE = 20_000
"""Number of rows per chunk of the response."""


def series_csv(run: Run, keys: Iterable[str] = ()) -> Iterator[bytes]:
    """Yield rows by metric, then step, then attempt; all metrics if `keys` is empty. `time` is in seconds since the epoch."""
    wanted = Series.objects.filter(run=run).order_by("key").values_list("key", flat=True)
    named = set(keys)
    yield HEADER.encode()
    for key in wanted:
        if named and key not in named:
            continue
        points = points_read(run, key)
        for first in range(0, len(points.steps), AT_ONCE):
            yield _rows(key, points, slice(first, first + AT_ONCE))


def _rows(key: str, points: Points, part: slice) -> bytes:
    columns = (points.attempts[part], points.steps[part], points.times[part], points.values[part])
    name = str(cell_text(key))
    if '"' in name:  # a name has no comma and no line break
        name = '"' + name.replace('"', '""') + '"'
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return "".join(
        f"{name},{attempt},{step},{time!r},{value!r}\n" for attempt, step, time, value in rows
    ).encode()


@routes.get("runs/<str:run_id>/series/export/", name="series-export", media_type="text/csv")
def series_export(
    user: Person,
    request: Request,
    run_id: str,
    keys: Annotated[Words, Field(description="Comma-separated; default: all metrics.")] = [],  # noqa: B006
) -> HttpResponseBase:
    """Return every point: metric, attempt, step, time (seconds since the epoch), value."""
    run = run_get(user, run_id)
    return stream(request._request, series_csv(run, keys), "text/csv", f"{run.pk}-series.csv")


class SeriesQuery(BaseModel):
    """Which metrics, and which of their points."""

    keys: Words = Field([], description="Comma-separated; default: return the available metrics.")
    search: str = Field("", description="Without keys: metrics whose names contain all of these words.")
    pattern: str = Field("", description="Without keys: metrics whose names match this regular expression.")
    limit: Annotated[Count, Field(ge=1)] | None = Field(
        None, description="Without keys: at most so many metrics; default: all, of a search 10,000."
    )
    points: Annotated[Count, Field(ge=1)] = Field(
        DEFAULT_POINTS, description="Maximum number of points per key, with spikes preserved."
    )
    since: Count = Field(0, description="Only points after this cursor.")
    first: Count | None = Field(None, description="Only from this step on.")
    last: Count | None = Field(None, description="Only up to this step.")


@routes.get("runs/<str:run_id>/series/", name="run-series")
def series(user: Person, run_id: str, query: SeriesQuery) -> documents.RunSeries:
    """Return the points of the metrics `keys`, or without `keys` the metrics. A series with more points than requested also has
    "buckets" of all points.
    """
    run = run_get(user, run_id)
    if not query.keys:
        named = NameQuery(query.search, query.pattern)
        try:
            metrics = series_keys(run, named, query.limit)
        except BadPattern as error:
            raise ConfigError({"pattern": str(error)}) from error
        return documents.RunSeries.model_construct(cursor=run.event_count, series={}, keys=metrics)
    part = (query.first, query.last) != (None, None)
    within = (query.first or 0, LAST_STEP if query.last is None else query.last) if part else None
    points = min(query.points, MOST_POINTS)
    columns = series_read(run, query.keys, points, query.since, run.event_count, within)
    series = {key: _document(some) for key, some in columns.items()}
    return documents.RunSeries.model_construct(cursor=run.event_count, series=series, keys=[])


def _document(columns: Mapping[str, Any]) -> documents.SeriesPoints:
    """Return the document of a result of `series_read`, which is not validated: it may have very many points."""
    buckets = columns.get("buckets")
    bucketed = documents.SeriesBuckets.model_construct(**buckets) if buckets else None
    return documents.SeriesPoints.model_construct(**{**columns, "buckets": bucketed})


@routes.get("expressions/check/", name="expression-check")
def expression_check(
    text: Annotated[str, Field(description="A metric or an expression.")] = "",
) -> documents.ExpressionCheck:
    """Return the metrics of an expression, or the message for an invalid one."""
    try:
        return documents.ExpressionCheck(metrics=list(expression_read(text, "text").keys), error="")
    except ConfigError as error:
        return documents.ExpressionCheck(metrics=[], error=error.fields["text"])

"""REST API of metrics: series to draw, and as CSV with one row for each stored point."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import number, text
from webapp.api.schema import JSON, parameter
from webapp.common.attachments import stream
from webapp.metrics.chunks import Points
from webapp.metrics.models import Series
from webapp.metrics.names import BadPattern, NameQuery
from webapp.metrics.selectors import keys as series_keys
from webapp.metrics.selectors import points_read, series_read
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from workers.http import cell_text

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


MOST_POINTS = 10_000
LAST_STEP = 2**62


class SeriesExport(APIView):
    """Metrics of a run as CSV."""

    @extend_schema(
        parameters=[parameter("keys", str, "comma-separated; default: all metrics")],
        responses={(200, "text/csv"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, run_id: str) -> StreamingHttpResponse:
        """Return every point: metric, attempt, step, time (seconds since the epoch), value."""
        run = run_get(request.user, run_id)
        keys = [key for key in text(request, "keys").split(",") if key]
        return stream(request._request, series_csv(run, keys), "text/csv", f"{run.pk}-series.csv")


class RunSeries(APIView):
    """Metrics of a run."""

    @extend_schema(
        parameters=[
            parameter("keys", str, "comma-separated; default: return the available keys"),
            parameter("search", str, "without keys: metrics whose names contain all of these words"),
            parameter("pattern", str, "without keys: metrics whose names match this regular expression"),
            parameter(
                "limit", int, "without keys: at most so many metrics; default: all, of a search 10,000"
            ),
            parameter(
                "points", int, "maximum number of points per key, with spikes preserved (default 1500)"
            ),
            parameter("since", int, "only points after this cursor"),
            parameter("first", int, "only from this step on"),
            parameter("last", int, "only up to this step"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return {"cursor", "series": {key: {steps, values, times, attempts}}}, or {"cursor", "keys": [...]}.

        A series with more points than requested also has "buckets": steps, times, means, lows, highs, counts of all points.
        """
        run = run_get(request.user, run_id)
        wanted = [key for key in text(request, "keys").split(",") if key]
        if not wanted:
            return Response({"cursor": run.event_count, "keys": _listed(request, run)})
        points = min(number(request, "points", 1500, 1), MOST_POINTS)
        part = bool({"first", "last"} & set(request.query_params))
        within = (number(request, "first", 0), number(request, "last", LAST_STEP)) if part else None
        series = series_read(run, wanted, points, number(request, "since", 0), run.event_count, within)
        return Response({"cursor": run.event_count, "series": series})


def _listed(request: Request, run: Run) -> list[dict[str, Any]]:
    """Return the metrics that the parameters choose. Raises ParseError."""
    query = NameQuery(text(request, "search"), text(request, "pattern"))
    most = number(request, "limit", 0, 1) or None
    try:  # not asdict, which copies deeply: a second for 100,000 metrics
        return [dict(vars(facts)) for facts in series_keys(run, query, most)]
    except BadPattern as error:
        raise ParseError(f"pattern: {error}") from error

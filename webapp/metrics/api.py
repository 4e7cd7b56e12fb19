"""The API of series exports."""

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from webapp.api.queries import text
from webapp.api.schema import parameter
from webapp.common.streaming import stream
from webapp.metrics.export import series_csv
from webapp.runs.selectors import run_get


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

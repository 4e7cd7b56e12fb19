"""The API of comparisons."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import text
from webapp.api.schema import JSON, parameter
from webapp.compare.selectors import runs_compare


class Compare(APIView):
    """Groups of runs side by side."""

    @extend_schema(
        parameters=[
            parameter("runs", str, "comma-separated ids"),
            parameter("filter", str, "and those that fit this filter"),
            parameter("key", str, "the metric whose last values are compared (default eval/success)"),
            parameter("by", str, "family (all but the seed), run, or a dotted config field"),
        ],
        responses={200: JSON, 400: JSON},
    )
    def get(self, request: Request) -> Response:
        """N, mean, sd, interquartile mean with its 95% bootstrap interval per group; probability of improvement per pair."""
        ids = [word.strip() for word in text(request, "runs").split(",") if word.strip()]
        key, by = text(request, "key") or "eval/success", text(request, "by") or "family"
        return Response(runs_compare(request.user, ids, text(request, "filter"), key, by))

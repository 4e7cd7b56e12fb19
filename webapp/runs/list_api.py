"""The API of the runs table."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import text
from webapp.api.schema import JSON, parameter
from webapp.runs.completion import filter_complete
from webapp.runs.filters import LONGEST


class FilterCompletion(APIView):
    """What may come next in a filter of runs."""

    @extend_schema(parameters=[parameter("text", str, "the filter up to the caret")], responses=JSON)
    def get(self, request: Request) -> Response:
        """{"start", "options": [{"text", "note"}]}: an option replaces the text from `start` on."""
        return Response(filter_complete(request.user, text(request, "text")[:LONGEST]))

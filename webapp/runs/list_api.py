"""The API of the runs table."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.errors import ConfigError
from webapp.api.queries import text
from webapp.api.schema import JSON, parameter
from webapp.runs.completion import column_complete, filter_complete
from webapp.runs.families import families_list
from webapp.runs.filters import LONGEST
from webapp.runs.managing import ACTS, runs_do
from webapp.runs.selectors import runs_list


class BulkAct(APIView):
    """One act on many runs."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """{"runs": [ids], "act", "value"}: [{"id", "ok", "detail"}], one for each."""
        body = request.data if isinstance(request.data, dict) else {}
        runs, act, value = body.get("runs"), body.get("act"), body.get("value", "")
        if not isinstance(runs, list) or not all(isinstance(run, str) for run in runs):
            raise ConfigError({"runs": "give a list of ids"})
        if not isinstance(act, str) or not isinstance(value, str | int):
            raise ConfigError({"act": f"give one of {', '.join(ACTS)}"})
        return Response({"results": runs_do(request.user, runs, act, str(value))})


class Families(APIView):
    """Runs grouped by everything but the seed."""

    @extend_schema(parameters=[parameter("filter", str, "the filter language")], responses=JSON)
    def get(self, request: Request) -> Response:
        """At most 200 families, the newest first: runs, n, mean and sd of each headline metric."""
        found = runs_list(request.user, {"filter": text(request, "filter")})
        return Response({"results": list(families_list(found)[:200])})


class ColumnCompletion(APIView):
    """Names of columns of the runs table."""

    @extend_schema(parameters=[parameter("text", str, "the beginning, or a part, of a name")], responses=JSON)
    def get(self, request: Request) -> Response:
        """{"start": 0, "options": [{"text", "note"}]}: facts, metrics and config fields of the caller's runs."""
        return Response(column_complete(request.user, text(request, "text")[:LONGEST]))


class FilterCompletion(APIView):
    """What may come next in a filter of runs."""

    @extend_schema(parameters=[parameter("text", str, "the filter up to the caret")], responses=JSON)
    def get(self, request: Request) -> Response:
        """{"start", "options": [{"text", "note"}]}: an option replaces the text from `start` on."""
        return Response(filter_complete(request.user, text(request, "text")[:LONGEST]))

"""The API of panels."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.errors import ConfigError
from webapp.api.queries import text
from webapp.api.schema import JSON, parameter
from webapp.metrics.expressions import expression_read


class ExpressionCheck(APIView):
    """Validation of expressions of metrics."""

    @extend_schema(parameters=[parameter("text", str, "a metric or an expression")], responses=JSON)
    def get(self, request: Request) -> Response:
        """Return {"metrics": [...], "error": the message for an invalid expression, or empty}."""
        try:
            return Response({"metrics": expression_read(text(request, "text"), "text").keys, "error": ""})
        except ConfigError as error:
            return Response({"metrics": [], "error": error.fields["text"]})

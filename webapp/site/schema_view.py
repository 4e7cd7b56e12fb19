"""The API's OpenAPI document."""

from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request


class SchemaView(SpectacularAPIView):
    """The document of the only version: a `version` in the query is ignored, and not written into headers."""

    def _get_version_parameter(self, request: Request) -> None:
        return None

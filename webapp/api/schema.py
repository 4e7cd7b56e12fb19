"""Words of the API's own schema."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

JSON = OpenApiTypes.OBJECT


def parameter(name: str, kind: Any, text: str) -> OpenApiParameter:
    """A query parameter."""
    return OpenApiParameter(name, kind, description=text)

"""Common parts of the OpenAPI schema."""

from copy import deepcopy
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

JSON = OpenApiTypes.OBJECT
ERROR = {
    "type": "object",
    "description": "`detail` describes the error; `errors` has a message for each invalid field, by its path.",
    "properties": {
        "detail": {"type": "string"},
        "errors": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": {},
}
REFUSALS = {
    "400": "The query or the body is invalid.",
    "401": "The token is missing, unknown, expired or revoked.",
    "403": "The token lacks the scope, or the user does not have the permission in the project.",
    "404": "The object does not exist or is not visible to the user.",
    "503": "The database does not answer; try again after the number of seconds in Retry-After.",
}
"""Statuses of rejected requests, common to all operations."""
REFUSED_CHANGES = {"409": "The state of the object does not allow it."}
REFUSED_BODIES = {"413": "The body is too large.", "415": "The body is not of the type application/json."}
METHODS = ("get", "post", "put", "patch", "delete")


def parameter(name: str, kind: Any, text: str) -> OpenApiParameter:
    """A query parameter."""
    return OpenApiParameter(name, kind, description=text)


def refusals_document(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Postprocessing hook of drf-spectacular: adds the statuses of rejections, and the response document of DELETE."""
    result["components"].setdefault("schemas", {})["Error"] = deepcopy(ERROR)
    for operations in result["paths"].values():
        for method in set(METHODS) & set(operations):
            _document(method, operations[method])
    return result


def _document(method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    if method == "delete" and "204" in responses:
        # drf-spectacular assumes 204; the views return 200 with the deleted object.
        responses["200"] = responses.pop("204") | {
            "content": {"application/json": {"schema": {"type": "object"}}}
        }
    refusals = dict(REFUSALS)
    if method != "get":
        refusals |= REFUSED_CHANGES | REFUSED_BODIES
    for status, description in refusals.items():
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        responses[status] = {"description": description, "content": content}
    operation["responses"] = dict(sorted(responses.items()))

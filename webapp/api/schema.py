"""Words of the API's own schema."""

from copy import deepcopy
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

JSON = OpenApiTypes.OBJECT
ERROR = {
    "type": "object",
    "description": "`detail` says what is wrong; `errors` has a message for each field at fault, by its path.",
    "properties": {
        "detail": {"type": "string"},
        "errors": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": {},
}
REFUSALS = {
    "400": "The query or the body is not understood.",
    "401": "There is no token, or it is unknown, expired or revoked.",
    "403": "The token lacks the scope, or the user may not do this in the project.",
    "404": "There is no such object among those that the user may see.",
    "503": "The database does not answer; try again after the seconds of Retry-After.",
}
"""Statuses with which any operation may refuse a request."""
REFUSED_CHANGES = {"409": "The state of the object does not allow it."}
REFUSED_BODIES = {"413": "The body is too large.", "415": "The body is not of the type application/json."}
METHODS = ("get", "post", "put", "patch", "delete")


def parameter(name: str, kind: Any, text: str) -> OpenApiParameter:
    """A query parameter."""
    return OpenApiParameter(name, kind, description=text)


def refusals_document(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Postprocessing hook of drf-spectacular: adds the statuses of refusals, and that a DELETE answers with a document."""
    result["components"].setdefault("schemas", {})["Error"] = deepcopy(ERROR)
    for operations in result["paths"].values():
        for method in set(METHODS) & set(operations):
            _document(method, operations[method])
    return result


def _document(method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    if method == "delete" and "204" in responses:
        # drf-spectacular takes 204 for granted; views here answer 200 with what was deleted.
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

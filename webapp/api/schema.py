"""Common parts of the OpenAPI schema."""

from copy import deepcopy
from typing import Any

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


def refusals_document(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Postprocessing hook of drf-spectacular: adds the statuses of rejections that a route does not state itself."""
    result["components"].setdefault("schemas", {})["Error"] = deepcopy(ERROR)
    for operations in result["paths"].values():
        for method in set(METHODS) & set(operations):
            _document(method, operations[method])
    return result


def _document(method: str, operation: dict[str, Any]) -> None:
    refusals = REFUSALS if method == "get" else REFUSALS | REFUSED_CHANGES | REFUSED_BODIES
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    stated = {
        status: {"description": description, "content": content} for status, description in refusals.items()
    }
    operation["responses"] = dict(sorted((stated | operation["responses"]).items()))

"""Saved views in the REST API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.errors import ConfigError
from webapp.accounts.selectors import project_get
from webapp.api.schema import JSON
from webapp.run_table.saved_views import (
    view_change,
    view_document,
    view_get,
    view_remove,
    view_save,
    views_visible,
)


class SavedViews(APIView):
    """Named configurations of the runs table."""

    @extend_schema(operation_id="v1_views_list", responses=JSON)
    def get(self, request: Request) -> Response:
        """Return the caller's own views and those of their projects, by name."""
        return Response({"results": [view_document(view) for view in views_visible(request.user)]})

    @extend_schema(request=JSON, responses={201: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Save {"name", "query": {"filter", "sort", "columns", "group", ...}, "project", "replace"}; without a project it
        belongs to the caller.
        """
        body = body_of(request, {"name", "query", "project", "replace"})
        query = body.get("query", {})
        if not isinstance(query, dict):
            raise ConfigError({"query": "give an object of the table's filters"})
        slug = _text(body, "project")
        project = project_get(request.user, slug) if slug else None
        replace = body.get("replace") is True
        made = view_save(request.user, _text(body, "name"), query, project, replace=replace)
        return Response(view_document(made), status=201)


class SavedViewDetail(APIView):
    """One view."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int) -> Response:
        """Return its query, and the URL of its page."""
        return Response(view_document(view_get(request.user, pk)))

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def patch(self, request: Request, pk: int) -> Response:
        """Change {"name", "default"}."""
        body = body_of(request, {"name", "default"})
        default = body.get("default")
        if default is not None and not isinstance(default, bool):
            raise ConfigError({"default": "give true or false"})
        changed = view_change(request.user, view_get(request.user, pk), _text(body, "name"), default)
        return Response(view_document(changed))

    @extend_schema(responses=JSON)
    def delete(self, request: Request, pk: int) -> Response:
        """Forget it."""
        view = view_get(request.user, pk)
        document = view_document(view)
        view_remove(request.user, view)
        return Response(document | {"deleted": True})


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key) or ""
    if not isinstance(value, str):
        raise ConfigError({key: "give text"})
    return value


def body_of(request: Request, known: set[str]) -> dict[str, Any]:
    """Return the body, an object with known keys only. Raises ConfigError."""
    if not isinstance(request.data, dict):
        raise ConfigError({"": "the body must be a JSON object"})
    if unknown := sorted(set(request.data) - known):
        raise ConfigError(dict.fromkeys(unknown, "there is no such field"))
    return dict(request.data)

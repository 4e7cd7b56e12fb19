"""REST API of queries on episodes: completion, curve, table, saved queries."""

from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.errors import ConfigError
from webapp.accounts.selectors import project_get
from webapp.api.pagination import OrderedPages
from webapp.api.queries import choice, text
from webapp.api.schema import JSON, parameter
from webapp.common.query_language import LONGEST
from webapp.runs.selectors import run_get
from webapp.transcripts.api import FILTERS, filters_read
from webapp.transcripts.completion import query_complete
from webapp.transcripts.counts import counts_read
from webapp.transcripts.query_curve import curve_read
from webapp.transcripts.saved_queries import (
    queries_visible,
    query_document,
    query_get,
    query_remove,
    query_save,
)
from webapp.transcripts.selectors import episodes_list
from webapp.transcripts.table import table_columns, table_row, table_sort
from webapp.transcripts.views_queries import table_answer

ORDER = [
    parameter("columns", str, "columns, e.g. iteration,success,planner.reward"),
    parameter("sort", str, "a column; -NAME: descending"),
]


class QueryCompletion(APIView):
    """Completion of queries."""

    @extend_schema(parameters=[parameter("text", str, "the query up to the caret")], responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Return {"start", "options": [{"text", "note"}]}: an option replaces the text from `start` on."""
        return Response(query_complete(run_get(request.user, run_id), text(request, "text")[:LONGEST]))


class EpisodeCurve(APIView):
    """The share of stored episodes that match a query, over training."""

    @extend_schema(
        parameters=[
            parameter("query", str, "the query language"),
            parameter("base", str, "the episodes of which the share is taken; default: all stored ones"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return {"width", "matching", "of", "counts", "kinds": [{"kind", "points": [{"first", "last", "matching", "of", "share",
        "low", "high"}]}]}: shares of stored episodes, not of all played, with Wilson intervals (95%).
        """
        run = run_get(request.user, run_id)
        curve = curve_read(run, text(request, "query"), text(request, "base"))
        return Response(curve | {"counts": counts_read(run)})


class EpisodeTable(APIView):
    """Episodes in chosen columns and any order."""

    @extend_schema(parameters=[*FILTERS, *ORDER], responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Return {"next", "previous", "results": [{"id", "name", column: value}]}, the newest first or by `sort`."""
        run = run_get(request.user, run_id)
        columns = table_columns(run, text(request, "columns"))
        episodes = episodes_list(run, filters_read(request, "columns", "sort", "offset"))
        pages = OrderedPages()
        rows = pages.paginate_queryset(table_sort(run, episodes, text(request, "sort")), request)
        return pages.get_paginated_response([table_row(episode, columns) for episode in rows])


class EpisodeTableExport(APIView):
    """The whole table as a file."""

    @extend_schema(
        parameters=[*FILTERS, *ORDER, parameter("as", str, "csv (the default) or jsonl")],
        responses={(200, "text/csv"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, run_id: str) -> HttpResponseBase:
        """Return one row per episode, the newest first or by `sort`."""
        order = {"columns": text(request, "columns"), "sort": text(request, "sort")}
        filters = filters_read(request, "columns", "sort", "as")
        form = choice(request, "as", ("csv", "jsonl")) or "csv"
        return table_answer(request._request, run_get(request.user, run_id), filters, order, form)


class SavedQueries(APIView):
    """Named queries of transcripts."""

    @extend_schema(operation_id="v1_queries_list", responses=JSON)
    def get(self, request: Request) -> Response:
        """Return the caller's own queries and those of their projects, by name."""
        return Response({"results": [query_document(saved) for saved in queries_visible(request.user)]})

    @extend_schema(request=JSON, responses={201: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Save {"name", "query", "project", "replace"}; without a project it belongs to the caller."""
        body = request.data if isinstance(request.data, dict) else {}
        if unknown := sorted(set(body) - {"name", "query", "project", "replace"}):
            raise ConfigError(dict.fromkeys(unknown, "there is no such field"))
        slug = _text(body, "project")
        project = project_get(request.user, slug) if slug else None
        saved = query_save(
            request.user,
            _text(body, "name"),
            _text(body, "query"),
            project,
            replace=body.get("replace") is True,
        )
        return Response(query_document(saved), status=201)


class SavedQueryDetail(APIView):
    """One saved query."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int) -> Response:
        """Return its text."""
        return Response(query_document(query_get(request.user, pk)))

    @extend_schema(responses=JSON)
    def delete(self, request: Request, pk: int) -> Response:
        """Delete it."""
        saved = query_get(request.user, pk)
        document = query_document(saved)
        query_remove(request.user, saved)
        return Response(document | {"deleted": True})


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key) or ""
    if not isinstance(value, str):
        raise ConfigError({key: "give text"})
    return value

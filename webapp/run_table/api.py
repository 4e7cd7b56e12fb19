"""The API of the runs table."""

from typing import Any

from django.db.models import QuerySet
from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import ParseError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.config.files import read_preset
from training_core.errors import ConfigError
from troupe_client.documents.launches import LaunchBody
from troupe_client.documents.runs import RunSummary
from webapp.accounts.selectors import project_chosen
from webapp.api.pagination import NewestFirst, OrderedPages
from webapp.api.queries import choice, text, truth
from webapp.api.routes import parsed
from webapp.api.schema import JSON, parameter
from webapp.common.query_language import LONGEST
from webapp.run_table.columns import cells_json, columns_read, rows_cells
from webapp.run_table.completion import column_complete, filter_complete
from webapp.run_table.families import families_list
from webapp.run_table.selectors import runs_list
from webapp.run_table.sorting import SORTS, is_sort
from webapp.runs.models import Run, RunState
from webapp.runs.selectors import run_get
from webapp.runs.serializers import RunSerializer
from webapp.scheduling.services import ACTS, run_create, runs_do

SORT_WORDS = f"one of {', '.join(SORTS)}, a metric (eval/success:max), or a config field (run.seed)"


class BulkAct(APIView):
    """One action on many runs."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Apply {"runs": [ids], "act", "value"}; returns [{"id", "ok", "detail"}], one for each run."""
        body = request.data if isinstance(request.data, dict) else {}
        runs, act, value = body.get("runs"), body.get("act"), body.get("value", "")
        if not isinstance(runs, list) or not all(isinstance(run, str) for run in runs):
            raise ConfigError({"runs": "give a list of ids"})
        if not isinstance(act, str) or not isinstance(value, str | int):
            raise ConfigError({"act": f"give one of {', '.join(ACTS)}"})
        return Response({"results": runs_do(request.user, runs, act, str(value))})


class Families(APIView):
    """Runs grouped by everything except the seed."""

    @extend_schema(parameters=[parameter("filter", str, "the filter language")], responses=JSON)
    def get(self, request: Request) -> Response:
        """Return at most 200 families, newest first: runs, n, mean and sd of each headline metric."""
        runs = runs_list(request.user, {"filter": text(request, "filter")})
        return Response({"results": list(families_list(runs)[:200])})


class ColumnCompletion(APIView):
    """Names of columns of the runs table."""

    @extend_schema(parameters=[parameter("text", str, "a prefix, or a substring, of a name")], responses=JSON)
    def get(self, request: Request) -> Response:
        """Return {"start": 0, "options": [{"text", "note"}]}: facts, metrics and config fields of the caller's runs."""
        return Response(column_complete(request.user, text(request, "text")[:LONGEST]))


class FilterCompletion(APIView):
    """Completion of filters."""

    @extend_schema(parameters=[parameter("text", str, "the filter up to the caret")], responses=JSON)
    def get(self, request: Request) -> Response:
        """Return {"start", "options": [{"text", "note"}]}: an option replaces the text from `start` on."""
        return Response(filter_complete(request.user, text(request, "text")[:LONGEST]))


class RunPages(NewestFirst):
    """Runs by creation time."""

    ordering = ("-created_at", "-id")


class RunList(generics.ListAPIView[Run]):
    """The caller's runs; POST launches one."""

    serializer_class = RunSerializer

    pagination_class = RunPages

    @cached_property
    def paginator(self) -> BasePagination:
        """Cursor pagination for the order of arrival, offsets for any other order."""
        return OrderedPages() if self.request.query_params.get("sort") else RunPages()

    def get_queryset(self) -> QuerySet[Run]:
        """Return the runs filtered by q, state, tag, project, filter."""
        filters = {name: text(self.request, name) for name in ("q", "tag", "project", "filter")}
        filters["sort"] = text(self.request, "sort")
        if filters["sort"] and not is_sort(filters["sort"]):
            raise ParseError(f"sort={filters['sort'][:40]!r}: use {SORT_WORDS}")
        filters["archived"] = str(truth(self.request, "archived") or "")
        filters["state"] = choice(self.request, "state", RunState.values)
        return runs_list(self.request.user, filters)

    @extend_schema(
        operation_id="v1_runs_list",
        parameters=[
            parameter("q", str, "words in name, id, preset or tags"),
            parameter("state", str, f"one of {', '.join(RunState.values)}"),
            parameter("tag", str, "a whole tag"),
            parameter("project", str, "slug of a project"),
            parameter("sort", str, f"{SORT_WORDS}; -NAME: descending"),
            parameter("columns", str, "columns to include for each run, e.g. run.seed,eval/success:max"),
            parameter("archived", bool, "include archived runs"),
            parameter("filter", str, "the filter language, e.g. eval/success > 0.8"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return runs newest first, or by `sort`. With `columns`, each has {"columns": {word: value}, "changes": {metric: change}}."""
        columns = columns_read(text(request, "columns")) if text(request, "columns") else []
        page = self.paginate_queryset(self.get_queryset())
        rows = self.get_serializer(page, many=True).data
        for row, cells in zip(rows, rows_cells(page or [], rows, columns), strict=True):
            row |= cells_json(cells) if columns else {}
        return self.get_paginated_response(rows)

    @extend_schema(request=LaunchBody, responses={201: RunSummary, 400: JSON})
    def post(self, request: Request) -> Response:
        """Launch a run: 201 with id and links, or 400 with one message per field path."""
        body = parsed(LaunchBody, request.data)
        run = run_create(
            request.user,
            project_chosen(request.user, body.project),
            read_preset(body.preset) if body.config is None else body.config,
            body.preset,
            body.overrides,
            body.name,
            body.tags,
            {"via": "API"} | body.provenance,
        )
        made = run_get(request.user, run.pk)
        return Response(RunSerializer(made).data, status=status.HTTP_201_CREATED)

"""The API of the runs table."""

from typing import Any

from django.db.models import QuerySet
from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import ParseError, PermissionDenied
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.config.files import read_preset
from training_core.errors import ConfigError
from webapp.accounts.models import Project
from webapp.accounts.selectors import project_default, project_named
from webapp.api.pagination import NewestFirst, OrderedPages
from webapp.api.queries import choice, text, truth
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
from webapp.scheduling.managing import ACTS, runs_do
from webapp.scheduling.serializers import LaunchSerializer
from webapp.scheduling.services import run_create

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

    @extend_schema(request=LaunchSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Launch a run: 201 with id and links, or 400 with one message per field path."""
        wanted = LaunchSerializer(data=request.data)
        if not wanted.is_valid():
            return Response(
                {"detail": "the request is not understood", "errors": _flat(wanted.errors)}, status=400
            )
        data = wanted.validated_data
        tree = read_preset(data["preset"]) if "preset" in data else data["config"]
        run = run_create(
            request.user,
            self._project(data.get("project", "")),
            tree,
            data.get("preset", ""),
            data.get("overrides", {}),
            data.get("name", ""),
            data.get("tags", []),
            {"via": "API"} | data.get("provenance", {}),
        )
        made = run_get(request.user, run.pk)
        return Response(RunSerializer(made).data, status=status.HTTP_201_CREATED)

    def _project(self, slug: str) -> Project:
        project = project_named(self.request.user, slug) if slug else project_default(self.request.user)
        if project is None:
            raise PermissionDenied("you cannot launch in any project; ask an owner for the editor level")
        return project


def _flat(errors: Any, path: str = "") -> dict[str, str]:
    """Return DRF's nested errors as one message per dotted path."""
    if isinstance(errors, dict):
        parts = [
            _flat(value, ".".join(filter(None, (path, "" if key == "non_field_errors" else str(key)))))
            for key, value in errors.items()
        ]
        return {key: text for part in parts for key, text in part.items()}
    return {path: " ".join(str(item) for item in errors)} if errors else {}

"""REST API v1: what the pages can do, for scripts."""

from dataclasses import asdict
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import ParseError, PermissionDenied
from rest_framework.pagination import BasePagination, CursorPagination
from rest_framework.parsers import FormParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.config.files import parse_config, preset_names, read_preset, to_toml
from training_core.config.gallery import has_words, searched_text
from training_core.config.kinds import CONFIGS
from webapp.accounts.models import Project
from webapp.accounts.selectors import project_default, project_get
from webapp.api.pagination import OrderedPages
from webapp.api.queries import choice, number, text, truth
from webapp.api.schema import JSON, parameter
from webapp.api.serializers import (
    CheckpointSerializer,
    EpisodeSerializer,
    LaunchSerializer,
    LogLineSerializer,
    ResumeSerializer,
    RunSerializer,
    StopSerializer,
)
from webapp.cluster.selectors import cluster_read
from webapp.experiments.fields import run_schema
from webapp.experiments.gallery import gallery
from webapp.metrics.selectors import keys as series_keys
from webapp.metrics.selectors import series_read
from webapp.runs import services
from webapp.runs.columns import cells_json, columns_read, rows_cells
from webapp.runs.editing import run_resume_edited
from webapp.runs.managing import run_do
from webapp.runs.models import Run, RunState
from webapp.runs.selectors import log_lines, run_get, runs_list
from webapp.runs.sorting import SORTS, sort_known
from webapp.transcripts.api import FILTERS, filters_read
from webapp.transcripts.models import Episode
from webapp.transcripts.selectors import episode_document, episode_get, episodes_list

MOST_POINTS = 10_000
SORT_WORDS = f"one of {', '.join(SORTS)}, a metric (eval/success:max), or a config field (run.seed)"
LAST_STEP = 2**62


class NewestFirst(CursorPagination):
    """Pages by a cursor: stable while new rows come in."""

    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 500

    def get_page_size(self, request: Request) -> int:
        """`limit`, at most max_page_size. Raises ParseError where it is no number."""
        return min(number(request, "limit", self.page_size, 1), self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        """A page. Raises ParseError for a cursor that was not made here."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, TypeError, ValidationError) as error:
            raise ParseError("the cursor is not one of ours: take it from `next` or `previous`") from error


class RunPages(NewestFirst):
    """Runs by when they were made."""

    ordering = ("-created_at", "-id")


class EpisodePages(NewestFirst):
    """Episodes by when they came in."""

    ordering = ("-id",)


class RunList(generics.ListAPIView[Run]):
    """The caller's runs; POST launches one."""

    serializer_class = RunSerializer

    pagination_class = RunPages

    @cached_property
    def paginator(self) -> BasePagination:
        """By a cursor in the order of arrival, by an offset in any other."""
        return OrderedPages() if self.request.query_params.get("sort") else RunPages()

    def get_queryset(self) -> QuerySet[Run]:
        """Filtered by q, state, tag, project, filter."""
        filters = {name: text(self.request, name) for name in ("q", "tag", "project", "filter")}
        filters["sort"] = text(self.request, "sort")
        if filters["sort"] and not sort_known(filters["sort"]):
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
            parameter("sort", str, f"{SORT_WORDS}; -NAME: the greatest first"),
            parameter("columns", str, "each run's values of these, e.g. run.seed,eval/success:max"),
            parameter("archived", bool, "archived runs too"),
            parameter("filter", str, "the filter language, e.g. eval/success > 0.8"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Newest first, or by `sort`. With `columns`, each has {"columns": {word: value}, "changes": {metric: change}}."""
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
                {"detail": "the request is not understood", "errors": flat(wanted.errors)}, status=400
            )
        data = wanted.validated_data
        tree = read_preset(data["preset"]) if "preset" in data else data["config"]
        run = services.run_create(
            request.user,
            self._project(data.get("project", "")),
            tree,
            data.get("preset", ""),
            data.get("overrides", {}),
            data.get("name", ""),
            data.get("tags", []),
        )
        made = run_get(request.user, run.pk)
        return Response(RunSerializer(made).data, status=status.HTTP_201_CREATED)

    def _project(self, slug: str) -> Project:
        project = project_get(self.request.user, slug) if slug else project_default(self.request.user)
        if project is None:
            raise PermissionDenied("you may launch in no project; ask an owner for the editor level")
        return project


class RunDetail(APIView):
    """One run."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Summary, config and facts."""
        return Response(RunSerializer(run_get(request.user, run_id), context={"detail": True}).data)


class RunAct(APIView):
    """stop or pause. A body is optional, in JSON or as a form."""

    act = "stop"
    parser_classes = (*APIView.parser_classes, FormParser, MultiPartParser)

    @extend_schema(request=StopSerializer, responses={200: JSON, 409: JSON})
    def post(self, request: Request, run_id: str) -> Response:
        """The run afterwards; 409 where its state does not allow it. With `now` it does not wait for its iteration."""
        body = StopSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with transaction.atomic():
            run_do(request.user, run_get(request.user, run_id), self.act)
            if body.validated_data["now"] and run_get(request.user, run_id).state == RunState.STOPPING:
                run_do(request.user, run_get(request.user, run_id), "end_now")
        return Response(RunSerializer(run_get(request.user, run_id)).data)


class RunResume(APIView):
    """A new attempt, under an edited config where that is wanted."""

    @extend_schema(request=ResumeSerializer, responses={200: JSON, 400: JSON, 409: JSON})
    def post(self, request: Request, run_id: str) -> Response:
        """The run afterwards; 409 where its state does not allow it or `checkpoint` is damaged, 400 with a message per field.

        Without `checkpoint` it is the newest whole one.
        """
        body = ResumeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        run, data = run_get(request.user, run_id), body.validated_data
        run_resume_edited(request.user, run, data.get("overrides", {}), data.get("checkpoint", ""))
        return Response(RunSerializer(run_get(request.user, run_id)).data)


class RunSeries(APIView):
    """Metrics of a run."""

    @extend_schema(
        parameters=[
            parameter("keys", str, "comma-separated; without it the keys there are"),
            parameter("points", int, "at most so many points per key, spikes kept (default 1500)"),
            parameter("since", int, "only what came after this cursor"),
            parameter("first", int, "only from this step on"),
            parameter("last", int, "only up to this step"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """{"cursor", "series": {key: {steps, values, times, attempts}}}, or {"cursor", "keys": [...]}.

        A series with more points than are asked for has "buckets" too: steps, times, means, lows, highs, counts of all.
        """
        run = run_get(request.user, run_id)
        wanted = [key for key in text(request, "keys").split(",") if key]
        if not wanted:
            return Response(
                {"cursor": run.event_count, "keys": [asdict(facts) for facts in series_keys(run)]}
            )
        points = min(number(request, "points", 1500, 1), MOST_POINTS)
        part = bool({"first", "last"} & set(request.query_params))
        within = (number(request, "first", 0), number(request, "last", LAST_STEP)) if part else None
        series = series_read(run, wanted, points, number(request, "since", 0), run.event_count, within)
        return Response({"cursor": run.event_count, "series": series})


@extend_schema(parameters=FILTERS)
class RunEpisodes(generics.ListAPIView[Episode]):
    """Episodes of a run, newest first."""

    serializer_class = EpisodeSerializer
    pagination_class = EpisodePages
    queryset = Episode.objects.none()

    def get_queryset(self) -> QuerySet[Episode]:
        """Filtered by webapp.transcripts.forms.EpisodeFilters."""
        return episodes_list(run_get(self.request.user, self.kwargs["run_id"]), filters_read(self.request))


class EpisodeDetail(APIView):
    """One episode with its transcript."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int) -> Response:
        """Facts, turns, candidates, what updates learnt."""
        episode = episode_get(request.user, pk)
        return Response(dict(EpisodeSerializer(episode).data) | episode_document(episode))


class RunCheckpoints(APIView):
    """Checkpoints of a run."""

    @extend_schema(responses=CheckpointSerializer(many=True))
    def get(self, request: Request, run_id: str) -> Response:
        """Newest first, removed ones too."""
        rows = run_get(request.user, run_id).checkpoints.order_by("-iteration", "-pk")
        return Response({"results": CheckpointSerializer(rows, many=True).data})


class RunLogs(APIView):
    """Log of a run."""

    @extend_schema(
        parameters=[
            parameter("after", int, "only lines with a higher id"),
            parameter("limit", int, "at most 2000"),
        ],
        responses=LogLineSerializer(many=True),
    )
    def get(self, request: Request, run_id: str) -> Response:
        """The last lines, or those after an id."""
        run = run_get(request.user, run_id)
        limit = min(number(request, "limit", 500, 1), 2000)
        rows = log_lines(run, number(request, "after", 0), limit)
        return Response({"results": LogLineSerializer(rows, many=True).data})


class Presets(APIView):
    """What ships with Troupe."""

    @extend_schema(
        responses=JSON,
        parameters=[
            parameter("find", str, "words that name, description, purpose, task or kind of agents have")
        ],
    )
    def get(self, request: Request) -> Response:
        """Name, agents (language_models or networks), description, what to expect (with its task), what was seen of it here,
        config tree and TOML of every preset.
        """
        wanted = text(request, "find")
        configs = {name: parse_config(read_preset(name)) for name in preset_names()}
        results = [
            {
                **about,
                "config": configs[about["name"]].model_dump(mode="json"),
                "toml": to_toml(configs[about["name"]], only_set=True),
            }
            for about in gallery(request.user)
            if has_words(searched_text(about["name"], about["description"], about["agents"]), wanted)
        ]
        return Response({"results": results})


class RunSchema(APIView):
    """The run config's JSON schema."""

    @extend_schema(
        responses=JSON,
        parameters=[
            parameter("agents", str, f"one of {', '.join(CONFIGS)}: whose config; the first by default")
        ],
    )
    def get(self, request: Request) -> Response:
        """Every field with its description, bounds and default."""
        agents = choice(request, "agents", CONFIGS) or next(iter(CONFIGS))
        return Response(run_schema(CONFIGS[agents]))


class Cluster(APIView):
    """Devices, and who holds them."""

    @extend_schema(responses=JSON)
    def get(self, request: Request) -> Response:
        """What the cluster has, what is free, which of the caller's runs hold or wait for what."""
        return Response(cluster_read(request.user))


def flat(errors: Any, path: str = "") -> dict[str, str]:
    """DRF's nested errors as one message per dotted path."""
    if isinstance(errors, dict):
        parts = [
            flat(value, ".".join(filter(None, (path, "" if key == "non_field_errors" else str(key)))))
            for key, value in errors.items()
        ]
        return {key: text for part in parts for key, text in part.items()}
    return {path: " ".join(str(item) for item in errors)} if errors else {}

"""REST API of episodes and their transcripts."""

import math
from typing import Any

from django import forms
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, serializers
from rest_framework.exceptions import ParseError
from rest_framework.pagination import Cursor
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.agents.rewards import return_label
from webapp.api.pagination import WRONG_CURSOR, NewestFirst
from webapp.api.queries import text, truth
from webapp.api.schema import JSON, parameter
from webapp.runs.selectors import run_get
from webapp.transcripts.export import export_answer
from webapp.transcripts.filters import words_hits
from webapp.transcripts.forms import EpisodeFilters
from webapp.transcripts.listing import EXAMINED, floor_of, is_examined
from webapp.transcripts.models import Episode
from webapp.transcripts.notes import note_add, note_document, note_get, note_remove, notes_list
from webapp.transcripts.selectors import episode_document, episode_get, episodes_list
from webapp.transcripts.words import terms


class FiniteFloat(serializers.FloatField):
    """NaN and infinities as strings, because JSON has none."""

    def to_representation(self, value: float) -> Any:
        """Return a number or "NaN", "Infinity", "-Infinity"."""
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


class EpisodeSerializer(serializers.ModelSerializer[Episode]):
    """An episode's facts."""

    episode_return = FiniteFloat()

    class Meta:
        model = Episode
        exclude = ("cursor", "words", "groups")


def _kind(field: forms.Field) -> type:
    for kind, answer in (
        (forms.NullBooleanField, bool),
        (forms.IntegerField, int),
        (forms.FloatField, float),
    ):
        if type(field) is kind:
            return answer
    return str


PAGING = ("limit", "cursor", "format")
FILTERS: list[OpenApiParameter] = [
    parameter(name, _kind(field), str(field.help_text)) for name, field in EpisodeFilters.base_fields.items()
]


def filters_read(request: Request, *others: str) -> dict[str, Any]:
    """Return the filters of the query string, which may have `others`, too. Raises ParseError for invalid filters."""
    unknown = set(request.query_params) - {*EpisodeFilters.base_fields, *PAGING, *others}
    if unknown:
        raise ParseError(
            f"unknown filter {', '.join(sorted(unknown))}; filters are {', '.join(EpisodeFilters.base_fields)}"
        )
    values = {name: text(request, name) for name in EpisodeFilters.base_fields}
    for name, field in EpisodeFilters.base_fields.items():
        if isinstance(field, forms.NullBooleanField):
            values[name] = {True: "true", False: "false", None: ""}[truth(request, name)]
    form = EpisodeFilters(values)
    if not form.is_valid():
        messages = [
            f"{name}={values[name][:40]!r}: {' '.join(map(str, messages))}"
            for name, messages in form.errors.items()
        ]
        raise ParseError("; ".join(messages))
    return form.values()


class NoteSerializer(serializers.Serializer[Any]):
    """A label, a note, or both."""

    turn = serializers.IntegerField(
        required=False, help_text="Number of the turn, from 1; none: the whole episode."
    )
    label = serializers.CharField(required=False, max_length=40)  # type: ignore[assignment]  # a field of ours, not DRF's
    text = serializers.CharField(required=False, max_length=10_000)


class EpisodeExport(APIView):
    """A run's episodes as JSON Lines."""

    @extend_schema(parameters=FILTERS, responses={(200, "application/x-ndjson"): OpenApiTypes.BINARY})
    def get(self, request: Request, run_id: str) -> StreamingHttpResponse:
        """Return one episode per line, newest first: facts, turns, candidates with tokens, results of updates, notes."""
        return export_answer(request._request, run_get(request.user, run_id), filters_read(request))


class EpisodeNotes(APIView):
    """Labels and notes of users."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int) -> Response:
        """Oldest first."""
        return Response(
            {
                "results": [
                    note_document(episode_note) for episode_note in notes_list(episode_get(request.user, pk))
                ]
            }
        )

    @extend_schema(request=NoteSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request, pk: int) -> Response:
        """Create a note and return it."""
        return Response(
            note_document(note_add(request.user, episode_get(request.user, pk), request.data)), status=201
        )


class EpisodeNoteRemove(APIView):
    """Removal of a note."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, pk: int, note: int) -> Response:
        """Return the removed note."""
        episode_note = note_get(episode_get(request.user, pk), note)
        document = note_document(episode_note)
        note_remove(request.user, episode_note)
        return Response(document)


class EpisodePages(NewestFirst):
    """Episodes by arrival. With filters, a page examines at most EXAMINED episodes; `next` continues with older ones."""

    ordering = ("-id",)
    floor: int | None = None
    """The last examined episode, if there are older ones."""

    def older_than(self, request: Request) -> int | None:
        """Return the id from which a page continues; None for the first page. Raises ParseError for an invalid cursor."""
        cursor = self.decode_cursor(request)
        if cursor is None or cursor.position is None:
            return None
        try:
            return int(cursor.position)
        except ValueError as error:
            raise ParseError(WRONG_CURSOR) from error

    def is_backwards(self, request: Request) -> bool:
        """Whether the page is the previous one of another."""
        cursor = self.decode_cursor(request)
        return cursor is not None and cursor.reverse

    def get_next_link(self) -> str | None:
        """Return the address of the next page."""
        if self.has_next or self.floor is None:
            return super().get_next_link()
        return self.encode_cursor(Cursor(offset=0, reverse=False, position=self.floor))


@extend_schema(parameters=FILTERS)
class RunEpisodes(generics.ListAPIView[Episode]):
    """Episodes of a run, newest first."""

    serializer_class = EpisodeSerializer
    pagination_class = EpisodePages
    queryset = Episode.objects.none()

    def list(self, request: Request, *args: Any, **options: Any) -> Response:
        """Return a page of episodes filtered by webapp.transcripts.forms.EpisodeFilters."""
        run, filters = run_get(request.user, self.kwargs["run_id"]), filters_read(request)
        asked = str(filters.get("q", ""))
        if terms(asked):
            filters["hits"] = words_hits(run, asked)
        pages: Any = self.paginator
        if not is_examined(filters) or pages.is_backwards(request):
            page = self.paginate_queryset(episodes_list(run, filters))
        else:
            before = pages.older_than(request)
            examined = Episode.objects.of_run(run).newest(EXAMINED, before)
            page = self.paginate_queryset(episodes_list(run, filters, examined))
            pages.floor = None if pages.has_next else floor_of(run, before)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class EpisodeDetail(APIView):
    """One episode with its transcript."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int) -> Response:
        """Return facts, turns, candidates, annotations by updates."""
        episode = episode_get(request.user, pk)
        facts = {"return_label": return_label(episode.run.config)}
        return Response(dict(EpisodeSerializer(episode).data) | facts | episode_document(episode))

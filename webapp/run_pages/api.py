"""The API of notes on runs, of what is marked on curves, and of what a run costs."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.schema import JSON
from webapp.run_pages.marks import marks_list
from webapp.run_pages.spending import spending_read
from webapp.runs.models import RunNote
from webapp.runs.notes import (
    run_note_add,
    run_note_change,
    run_note_document,
    run_note_get,
    run_note_remove,
    run_notes_list,
)
from webapp.runs.selectors import run_get


class RunNoteSerializer(serializers.Serializer[RunNote]):
    """A note to make."""

    text = serializers.CharField(max_length=4000)
    step = serializers.IntegerField(
        required=False, min_value=0, help_text="Iteration; without it, the whole run."
    )


class RunMarks(APIView):
    """What happened in a run besides its numbers."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Checkpoints, attempts, edits of the config, findings, notes: kind, step, time (seconds since the epoch), title,
        detail, link, by step.
        """
        run = run_get(request.user, run_id)
        return Response({"cursor": run.event_count, "results": [mark.json() for mark in marks_list(run)]})


class RunCost(APIView):
    """What a run has cost so far, and what it will."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Seconds waited and run, devices held and their hours, tokens sampled (and played again), the estimate at its end."""
        return Response(spending_read(run_get(request.user, run_id)).json())


class RunNotes(APIView):
    """What people wrote about a run."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Newest first."""
        notes = run_notes_list(run_get(request.user, run_id))
        return Response({"results": [run_note_document(note) for note in notes]})

    @extend_schema(request=RunNoteSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request, run_id: str) -> Response:
        """Write one, at a step or about the whole run; editors of the project."""
        made = run_note_add(request.user, run_get(request.user, run_id), request.data)
        return Response(run_note_document(made), status=201)


class RunNoteChange(APIView):
    """Other words for a note."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def post(self, request: Request, run_id: str, pk: int) -> Response:
        """{"text"}: the note as it is now; its author and owners of the project."""
        note = run_note_get(run_get(request.user, run_id), pk)
        text = request.data.get("text") if isinstance(request.data, dict) else None
        return Response(run_note_document(run_note_change(request.user, note, text)))


class RunNoteRemove(APIView):
    """Take a note away."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, run_id: str, pk: int) -> Response:
        """The note as it was; its author and owners of the project."""
        note = run_note_get(run_get(request.user, run_id), pk)
        document = run_note_document(note)
        run_note_remove(request.user, note)
        return Response(document)

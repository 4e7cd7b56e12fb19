"""The API of notes, marks and cost of runs."""

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
    """The fields of a new note."""

    text = serializers.CharField(max_length=4000)
    step = serializers.IntegerField(
        required=False, min_value=0, help_text="Iteration; default: the whole run."
    )


class RunMarks(APIView):
    """Events of a run that are marked on its curves."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Return checkpoints, attempts, edits of the config, findings, notes: kind, step, time (seconds since the epoch), title,
        detail, link, by step.
        """
        run = run_get(request.user, run_id)
        return Response({"cursor": run.event_count, "results": [mark.json() for mark in marks_list(run)]})


class RunCost(APIView):
    """Cost of a run so far, and the estimate of its total."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Return seconds waited and run, devices held and their hours, tokens sampled (and repeated), the estimate of the total."""
        return Response(spending_read(run_get(request.user, run_id)).json())


class RunNotes(APIView):
    """Notes on a run."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, run_id: str) -> Response:
        """Newest first."""
        notes = run_notes_list(run_get(request.user, run_id))
        return Response({"results": [run_note_document(note) for note in notes]})

    @extend_schema(request=RunNoteSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request, run_id: str) -> Response:
        """Create a note on a step or on the whole run; editors of the project."""
        made = run_note_add(request.user, run_get(request.user, run_id), request.data)
        return Response(run_note_document(made), status=201)


class RunNoteChange(APIView):
    """Edits of a note."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def post(self, request: Request, run_id: str, pk: int) -> Response:
        """Set {"text"} and return the note; its author and owners of the project."""
        note = run_note_get(run_get(request.user, run_id), pk)
        text = request.data.get("text") if isinstance(request.data, dict) else None
        return Response(run_note_document(run_note_change(request.user, note, text)))


class RunNoteRemove(APIView):
    """Removal of a note."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, run_id: str, pk: int) -> Response:
        """Return the removed note; its author and owners of the project."""
        note = run_note_get(run_get(request.user, run_id), pk)
        document = run_note_document(note)
        run_note_remove(request.user, note)
        return Response(document)

"""The API of one run: its record, log, notes, marks and cost."""

from typing import Annotated

from pydantic import Field

from troupe_client.documents import runs as documents
from troupe_client.documents.base import Count
from webapp.accounts.permissions import Person
from webapp.api.routes import Routes
from webapp.metrics.headline import HEADLINE
from webapp.run_pages.costs import run_cost
from webapp.run_pages.marks import marks_list
from webapp.run_table.columns import headline_names
from webapp.runs import notes
from webapp.runs.logs import MOST, LineFilter, log_lines
from webapp.runs.selectors import facts_of, run_get, run_summary

routes = Routes()


@routes.get("runs/<str:run_id>/", name="run")
def run(user: Person, run_id: str) -> documents.RunDetail:
    """Return summary, config and facts."""
    run = run_get(user, run_id)
    names = headline_names([run]).get(run.pk) or [key for key in HEADLINE if key in run.headline]
    return documents.RunDetail(
        **run_summary(run),
        config=run.config,
        facts=facts_of(run),
        headline_names=names,
        values_dropped=run.values_dropped,
    )


class LogQuery(LineFilter):
    """Which lines of a log."""

    after: Count | None = Field(
        None, description="Only lines with a higher id, oldest first; 0: from the first line."
    )
    before: Count | None = Field(None, description="Only lines with a lower id.")
    limit: Annotated[Count, Field(ge=1)] = Field(500, description=f"At most {MOST}.")


@routes.get("runs/<str:run_id>/logs/", name="run-logs", operation_id="v1_runs_logs_list")
def logs(user: Person, run_id: str, query: LogQuery) -> list[documents.LogLine]:
    """Return the last lines, or those after an id. A full page after an id is followed by another one: ask again after its last id."""
    lines = log_lines(run_get(user, run_id), query.after, query.before, min(query.limit, MOST), query)
    return [documents.LogLine.model_validate(line, from_attributes=True) for line in lines]


@routes.get("runs/<str:run_id>/marks/", name="run-marks")
def marks(user: Person, run_id: str) -> documents.RunMarks:
    """Return the checkpoints, attempts, edits of the config, findings and notes that are marked on its curves, by step."""
    run = run_get(user, run_id)
    return documents.RunMarks(cursor=run.event_count, results=marks_list(run))


@routes.get("runs/<str:run_id>/cost/", name="run-cost")
def cost(user: Person, run_id: str) -> documents.RunCost:
    """Return seconds waited and run, devices held and their hours, tokens sampled (and repeated), the estimate of the total."""
    return run_cost(run_get(user, run_id))


@routes.get("runs/<str:run_id>/notes/", name="run-notes")
def run_notes(user: Person, run_id: str) -> list[documents.RunNote]:
    """Return the notes on a run, newest first."""
    return [notes.run_note_document(note) for note in notes.run_notes_list(run_get(user, run_id))]


@routes.post("runs/<str:run_id>/notes/", status=201)
def note_add(user: Person, run_id: str, body: documents.RunNoteBody) -> documents.RunNote:
    """Create a note on a step or on the whole run; editors of the project."""
    return notes.run_note_document(notes.run_note_add(user, run_get(user, run_id), body))


@routes.post("runs/<str:run_id>/notes/<int:pk>/change/", name="run-note-change")
def note_change(user: Person, run_id: str, pk: int, body: documents.RunNoteChangeBody) -> documents.RunNote:
    """Change the text of a note; its author and owners of the project."""
    note = notes.run_note_get(run_get(user, run_id), pk)
    return notes.run_note_document(notes.run_note_change(user, note, body))


@routes.post("runs/<str:run_id>/notes/<int:pk>/remove/", name="run-note-remove")
def note_remove(user: Person, run_id: str, pk: int) -> documents.RunNote:
    """Delete a note and return it; its author and owners of the project."""
    note = notes.run_note_get(run_get(user, run_id), pk)
    document = notes.run_note_document(note)
    notes.run_note_remove(user, note)
    return document

"""What users write on the pages of a run: notes on its steps, and the metrics that its overview shows first."""

from collections.abc import Iterable

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404

from training_core.errors import ConfigError
from troupe_client.documents import runs as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.models import User
from webapp.accounts.permissions import Person, can_edit, is_owner
from webapp.runs.models import Run, RunNote

MOST = 12
LONGEST = 200
"""Maximum length of a metric's name, as in events."""


def headline_read(names: Iterable[str]) -> list[str]:
    """Return the names without blanks and duplicates. Raises ConfigError (headline) for too many and too long ones."""
    keys = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if len(keys) > MOST:
        raise ConfigError({"headline": f"has {len(keys)} metrics; name at most {MOST}"})
    if wrong := next((key for key in keys if len(key) > LONGEST or "\0" in key), None):
        raise ConfigError(
            {"headline": f"{wrong[:40]!r} is not the name of a metric; use its name on the curves page"}
        )
    return keys


@transaction.atomic
def run_headline_set(user: Person, run: Run, names: Iterable[str]) -> None:
    """Choose the metrics that the overview shows first; none: by their names. Raises PermissionDenied, ConfigError (headline)."""
    if not can_edit(user, run.project):
        raise PermissionDenied(f"you cannot write in the project {run.project.slug}")
    run.headline_keys = headline_read(names)
    run.save(update_fields=["headline_keys"])
    audit_note(user, run.project, "run.headline", run.pk, headline=run.headline_keys)


@transaction.atomic
def run_note_add(user: Person, run: Run, body: documents.RunNoteBody) -> RunNote:
    """Add a note on the run, or on its step `step`. Raises PermissionDenied."""
    if not isinstance(user, User) or not can_edit(user, run.project):
        raise PermissionDenied(f"you cannot write in the project {run.project.slug}")
    note = RunNote.objects.create(run=run, author=user, text=body.text, step=body.step)
    audit_note(user, run.project, "run.note", run.pk, note=note.pk, text=body.text, step=body.step)
    return note


@transaction.atomic
def run_note_change(user: Person, note: RunNote, body: documents.RunNoteChangeBody) -> RunNote:
    """Change the text; allowed for its author and owners of the project. Raises PermissionDenied."""
    _may_change(user, note)
    was, note.text = note.text, body.text
    note.save(update_fields=["text"])
    audit_note(user, note.run.project, "run.note_change", note.run_id, note=note.pk, was=was, text=note.text)
    return note


@transaction.atomic
def run_note_remove(user: Person, note: RunNote) -> None:
    """Delete a note; allowed for its author and owners of the project. Raises PermissionDenied."""
    _may_change(user, note)
    project = note.run.project
    audit_note(user, project, "run.note_remove", note.run_id, note=note.pk, step=note.step, text=note.text)
    note.delete()


def run_note_get(run: Run, pk: int) -> RunNote:
    """Return one note of the run. Raises Http404."""
    note = RunNote.objects.filter(run=run, pk=pk).select_related("run__project").first()
    if note is None:
        raise Http404(f"the run {run.pk} has no note {pk}")
    return note


def _may_change(user: Person, note: RunNote) -> None:
    project = note.run.project
    if not (is_owner(user, project) or (note.author_id == user.pk and can_edit(user, project))):
        raise PermissionDenied("only its author and owners of the project may change or remove a note")


def run_notes_latest(runs: Iterable[Run]) -> dict[str, RunNote]:
    """Return the latest note of each run with notes, by the run's id."""
    latest = RunNote.objects.filter(run__in=list(runs)).select_related("author").order_by("run", "-pk")
    return {note.run_id: note for note in latest.distinct("run")}


def run_notes_list(run: Run) -> list[RunNote]:
    """Newest first."""
    return list(RunNote.objects.filter(run=run).select_related("author"))


def run_note_document(note: RunNote) -> documents.RunNote:
    """Return its document."""
    author = note.author.username if note.author else None
    return documents.RunNote(
        id=note.pk, step=note.step, text=note.text, author=author, created_at=note.created_at
    )

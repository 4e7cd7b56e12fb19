"""Labels and notes of users on episodes and on single turns."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404

from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.models import User
from webapp.accounts.permissions import Person, can_edit, is_owner
from webapp.runs.models import Run
from webapp.transcripts.forms import NoteForm
from webapp.transcripts.models import Episode, EpisodeNote
from webapp.transcripts.selectors import episode_document

USUAL = ("good", "bad", "interesting", "reward hacking", "off task", "truncated thought")
"""Labels suggested until a run has its own."""


@transaction.atomic
def note_add(user: Person, episode: Episode, data: Any) -> EpisodeNote:
    """Add a label or note to an episode (or to the turn `turn`). Raises PermissionDenied, ConfigError with a message per field."""
    if not isinstance(user, User) or not can_edit(user, episode.run.project):
        raise PermissionDenied(f"you do not have write access to the project {episode.run.project.slug}")
    form = NoteForm(data if isinstance(data, Mapping) else {})
    if not form.is_valid():
        raise ConfigError({name: " ".join(map(str, messages)) for name, messages in form.errors.items()})
    values = form.cleaned_data
    if not values["label"] and not values["text"]:
        raise ConfigError({"label": "give a label, a note, or both"})
    if values["turn"] is not None and values["turn"] > len(episode_document(episode).get("turns", [])):
        raise ConfigError({"turn": f"this episode has no turn {values['turn']}"})
    note = EpisodeNote.objects.create(episode=episode, author=user, **values)
    audit_note(
        user, episode.run.project, "episode.note", str(episode.pk), run=episode.run_id, note=note.pk, **values
    )
    return note


@transaction.atomic
def note_remove(user: Person, note: EpisodeNote) -> None:
    """Delete a note; allowed for its author and owners of the project. Raises PermissionDenied."""
    project = note.episode.run.project
    if not (is_owner(user, project) or (note.author_id == user.pk and can_edit(user, project))):
        raise PermissionDenied("only its author and owners of the project may remove a note")
    details = {"run": note.episode.run_id, "note": note.pk, "label": note.label, "text": note.text}
    note.delete()
    audit_note(user, project, "episode.note_remove", str(note.episode_id), **details)


def note_get(episode: Episode, pk: int) -> EpisodeNote:
    """Return one note of the episode. Raises Http404."""
    note = EpisodeNote.objects.filter(episode=episode, pk=pk).select_related("episode__run__project").first()
    if note is None:
        raise Http404(f"episode {episode.pk} has no note {pk}")
    return note


def notes_list(episode: Episode) -> QuerySet[EpisodeNote]:
    """Oldest first."""
    return EpisodeNote.objects.filter(episode=episode).select_related("author").order_by("pk")


def note_document(note: EpisodeNote) -> dict[str, Any]:
    """Return JSON for the API and exports."""
    return {
        "id": note.pk,
        "episode": note.episode_id,
        "turn": note.turn,
        "label": note.label,
        "text": note.text,
        "author": note.author.username,
        "created_at": note.created_at.isoformat(),
    }


def labels_of(run: Run) -> list[str]:
    """Return the run's labels, most used first."""
    used = EpisodeNote.objects.filter(episode__run=run).exclude(label="").values_list("label", flat=True)
    counts: dict[str, int] = {}
    for label in used[:5000]:
        counts[label] = counts.get(label, 0) + 1
    return sorted(counts, key=lambda label: (-counts[label], label))

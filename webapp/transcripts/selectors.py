"""Reading episodes."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import Http404

from webapp.accounts.permissions import Person
from webapp.runs.models import Run
from webapp.runs.selectors import runs_visible
from webapp.transcripts.bodies import Piece, annotations_read, piece_read, unpacked
from webapp.transcripts.filters import episodes_narrow
from webapp.transcripts.models import Episode, EpisodeAnnotation, EpisodeBody
from webapp.transcripts.query import query_condition

PER_CANDIDATE = ("ratios", "entropies", "training_logprobs", "masks")


def episodes_list(
    run: Run, filters: Mapping[str, Any] | None = None, among: QuerySet[Episode] | None = None
) -> QuerySet[Episode]:
    """Return episodes newest first, matching the filters of webapp.transcripts.forms.EpisodeFilters.

    among: the episodes of the run that are examined; None: all.
    A filter "noted" that is false forbids queries of labels and notes. Raises FilterError for an invalid query.
    """
    filters = filters or {}
    examined = Episode.objects.of_run(run) if among is None else among
    episodes = examined.order_by("-pk").defer("words", "groups", "run__facts")
    condition = query_condition(run, str(filters.get("query", "")), noted=filters.get("noted", True))
    return episodes_narrow(episodes, run, filters).filter(condition)


def episode_get(user: Person, pk: int) -> Episode:
    """Return one episode. Raises Http404, also for projects that are not visible to the user."""
    episodes = Episode.objects.select_related("run__project", "run__owner").defer(
        "words", "groups", "run__facts"
    )
    episode = episodes.filter(pk=pk, run__in=runs_visible(user)).first()
    if episode is None:
        raise Http404(f"there is no episode {pk} that is visible to you")
    return episode


def episode_document(episode: Episode) -> dict[str, Any]:
    """Return the body with annotations merged into its candidates; {} if the body was deleted."""
    return documents_read([episode])[episode.pk]


def documents_read(episodes: Sequence[Episode]) -> dict[int, dict[str, Any]]:
    """Return `episode_document` of several episodes of one run, by id."""
    documents: dict[int, dict[str, Any]] = {episode.pk: {} for episode in episodes}
    bodies = EpisodeBody.objects.filter(episode__in=list(documents))
    for pk, data in bodies.values_list("episode_id", "data"):
        documents[pk] = unpacked(data)
    by_name = {(episode.name, episode.attempt): documents[episode.pk] for episode in episodes}
    learnt = EpisodeAnnotation.objects.filter(
        run_id__in={episode.run_id for episode in episodes}, episode_name__in=[name for name, _ in by_name]
    )
    for note in learnt.order_by("pk"):
        if document := by_name.get((note.episode_name, note.attempt)):
            _annotate(document, unpacked(note.data))
    return documents


def turns_read(episode: Episode, first: int, most: int) -> Piece:
    """Return at most `most` turns from index `first` (from 0) with annotations; reads only the needed piece of a long episode."""
    piece = piece_read(episode, first, most)
    for note in annotations_read(episode, first, first + len(piece.turns)):
        _annotate({"turns": piece.turns}, note, piece.first)
    return piece


def turn_get(episode: Episode, number: int) -> dict[str, Any]:
    """Return turn `number` (from 1) with annotations. Raises Http404 if there is none, or its body was deleted."""
    turns = turns_read(episode, number - 1, 1).turns if number >= 1 else []
    if not turns:
        raise Http404(f"episode {episode.pk} has no stored turn {number}")
    return turns[0]


def _annotate(document: dict[str, Any], note: Mapping[str, Any], first: int = 0) -> None:
    """Ignores a note on a missing turn or candidate: it comes from a damaged report, or belongs to another piece.

    `first`: index of the document's first turn in its episode.
    """
    document["stages"] = {**document.get("stages", {}), **note.get("stages", {})}
    turns = document["turns"]
    for learnt in note["turns"]:
        if not 0 <= learnt["turn"] - first < len(turns):
            continue
        candidates = turns[learnt["turn"] - first]["candidates"]
        for index, candidate in enumerate(candidates):
            if index < len(learnt["advantages"]):
                candidate["advantage"] = learnt["advantages"][index]
            for name in PER_CANDIDATE:
                if index < len(learnt.get(name, [])):
                    candidate[name] = learnt[name][index]

"""Pages of transcripts: the list, and one episode turn by turn."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from training_core.errors import ConfigError
from webapp.accounts.permissions import Level, Visitor, level_of
from webapp.agents.registry import agent_pages
from webapp.common.query_language import FilterError
from webapp.common.tones import role_tones
from webapp.runs.frame import framed_run, run_context
from webapp.runs.selectors import run_get
from webapp.transcripts.bodies import PIECE
from webapp.transcripts.completion import newest_of
from webapp.transcripts.counts import counts_read
from webapp.transcripts.export import export_answer
from webapp.transcripts.forms import EpisodeFilters, ListPosition, Start
from webapp.transcripts.listing import EXAMINED, PER_PAGE, Slice, stream_read
from webapp.transcripts.models import Episode
from webapp.transcripts.notes import USUAL, labels_of, note_add, note_get, note_remove, notes_list
from webapp.transcripts.pages import filters_context, neighbours, same_task, transcript_data, turns_shown
from webapp.transcripts.probes import KINDS as EVALUATIONS
from webapp.transcripts.quarters import quarters_read
from webapp.transcripts.query import PARAMETER
from webapp.transcripts.saved_queries import queries_shown
from webapp.transcripts.selectors import episode_get, turns_read


@require_GET
def episodes_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the run's episodes, newest first, with the filters of the URL; `part=rows` returns only the rows."""
    run = framed_run(request.user, run_id)
    filters = _filters(request)
    before, after = ListPosition(request.GET).values()
    whole = request.GET.get("part") != "rows"
    newest = newest_of(run).get("pk", 0) if whole else 0  # before the rows: a later episode is then new
    wrong = ""
    try:
        page = stream_read(run, filters, before, after)
    except FilterError as error:
        wrong, page = error.fields[PARAMETER], Slice([], None)
    if not whole:
        context = {"run": run, "episodes": page.episodes, "quarters": quarters_read(run)}
        answer = render(request, "transcripts/_rows.html", context)
        answer["Troupe-Older"] = str(page.older or "")
        return answer
    context = run_context(request.user, run, "transcripts") | {
        **filters_context(run, filters, noted=not isinstance(request.user, Visitor)),
        "counts": counts_read(run, None if wrong else filters, page),
        "wrong": wrong,
        "queries": queries_shown(request, run),
        "episodes": page.episodes,
        "newest": newest,
        "older": page.older,
        "unexamined": page.examined,
        "examined": EXAMINED,
        "probes": any(run.episode_counts.get(kind) for kind in EVALUATIONS),
        "paused": before is not None,
        "most": PER_PAGE,
    }
    return render(request, "transcripts/list.html", context)


@require_GET
def episode_page(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Show one episode: each agent's prompts, responses and rewards, the board, the tokens. Turns are loaded in pieces, first
    the piece of `start`; `part=turns` returns only the piece.
    """
    episode = _episode(request, run_id, pk)
    piece = turns_read(episode, Start(request.GET).place(PIECE), PIECE)
    notes = [] if isinstance(request.user, Visitor) else list(notes_list(episode))
    context = {
        "run": episode.run,
        "episode": episode,
        "turns": turns_shown(episode.run, piece, notes),
        "person": request.user,
        "agents": agent_pages(episode.run.config),
    }
    if request.GET.get("part") == "turns":
        level = level_of(request.user, episode.run.project)
        context |= {"can_edit": level in (Level.OWNER, Level.EDITOR), "owner": level == Level.OWNER}
        return render(request, "transcripts/_turns.html", context)
    older, newer = neighbours(episode)
    context |= run_context(
        request.user, episode.run, "transcripts", transcript=transcript_data(episode, piece)
    ) | {
        "notes": [note for note in notes if note.turn is None],
        "labels": list(dict.fromkeys([*labels_of(episode.run), *USUAL])),
        "piece": piece,
        "before": max(1, piece.first + 1 - PIECE) if piece.first else None,
        "after": piece.first + PIECE + 1 if piece.first + PIECE < piece.count else None,
        "tones": role_tones(episode.run.config),
        "seconds": episode.ended - episode.started,
        "same_task": same_task(episode),
        "quarters": quarters_read(episode.run),
        "older": older,
        "newer": newer,
    }
    return render(request, "transcripts/detail.html", context)


@require_GET
def episodes_export(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """Export the episodes that match the filters of the URL as JSON Lines."""
    return export_answer(request, run_get(request.user, run_id), EpisodeFilters(request.GET).values())


@require_POST
def note_write(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Add a label or note to an episode or a turn; redirects back."""
    episode = _episode(request, run_id, pk)
    try:
        note = note_add(request.user, episode, request.POST)
    except ConfigError as error:
        messages.error(request, str(error))
        return _back(episode, None)
    return _back(episode, note.turn)


@require_POST
def note_drop(request: HttpRequest, run_id: str, pk: int, note: int) -> HttpResponse:
    """Remove a note."""
    episode = _episode(request, run_id, pk)
    episode_note = note_get(episode, note)
    note_remove(request.user, episode_note)
    return _back(episode, episode_note.turn)


def _filters(request: HttpRequest) -> dict[str, Any]:
    """Return the filters of the URL; without labels for visitors, because users wrote them."""
    filters = EpisodeFilters(request.GET).values()
    if isinstance(request.user, Visitor):
        filters.pop("label", None)
        filters["noted"] = False
    return filters


def _episode(request: HttpRequest, run_id: str, pk: int) -> Episode:
    episode = episode_get(request.user, pk)
    if episode.run_id != run_id:
        raise Http404
    return episode


def _back(episode: Episode, turn: int | None) -> HttpResponse:
    address = reverse("transcripts:detail", args=[episode.run_id, episode.pk])
    return redirect(f"{address}#turn-{turn}" if turn else address)

"""Pages of one episode: turn by turn, its tree and notes; the episodes of a task over training, and their differences."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import orjson
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST
from pydantic import BaseModel, Field

from training_core.errors import ConfigError
from troupe_client.documents.transcripts import NoteBody
from webapp.accounts.permissions import Level, Visitor, level_of
from webapp.agents.registry import agent_pages
from webapp.api.routes import lenient, parsed
from webapp.common.formats import reward
from webapp.common.tones import role_tones
from webapp.runs.frame import run_context
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from webapp.transcripts import services
from webapp.transcripts.bodies import PIECE, Piece, turn_get, turns_read
from webapp.transcripts.candidates import (
    LEVELS,
    compared,
    folded,
    group_of,
    lean,
    spread,
    tokens_of,
    tree_read,
)
from webapp.transcripts.episodes import episode_get, quarters_read
from webapp.transcripts.models import Episode, EpisodeNote
from webapp.transcripts.probes import difference, plays_of, strips_read
from webapp.transcripts.query import KINDS

SAME_TASK = 24
"""Number of episodes of the same task shown side by side."""
PLAYS = 500
"""Number of episodes of a task to compare with."""
_GAP = 16
"""Maximum characters between two tokens of a response: spaces, and text without a token of its own."""
PITCH = 26
"""Pixels between adjacent candidates of the tree; the same as in static/css/tree.css."""
FIRST_TOKENS, FEWEST_TOKENS = 640, 20
"""Tokens that the page of a group contains, shared by its candidates, and of each of many; the browser requests the others."""


class Place(BaseModel):
    """The first turn, or the turn and the candidate, that a page shows, from 1."""

    start: int = Field(1, ge=1, lt=2**31)
    turn: int = Field(1, ge=1, lt=2**31)
    candidate: int | None = Field(None, ge=1, lt=2**31)


class Strips(BaseModel):
    """The probe timelines to show."""

    kind: Literal["eval", "eval_sampled"] = "eval"
    task: str = Field("", max_length=200)
    page: int = Field(0, ge=0, le=10_000)


class Against(BaseModel):
    """The episode to compare with."""

    other: int | None = Field(None, ge=1, lt=2**63)


def _episode(request: HttpRequest, run_id: str, pk: int) -> Episode:
    episode = episode_get(request.user, pk)
    if episode.run_id != run_id:
        raise Http404
    return episode


@require_GET
def episode_page(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Show one episode: each agent's prompts, responses and rewards, the board, the tokens. Turns are loaded in pieces, first
    the piece of `start`; `part=turns` returns only the piece.
    """
    episode = _episode(request, run_id, pk)
    piece = turns_read(episode, (lenient(Place, request.GET).start - 1) // PIECE * PIECE, PIECE)
    notes = [] if isinstance(request.user, Visitor) else list(services.notes_list(episode))
    agents = agent_pages(episode.run.config)
    context = {
        "run": episode.run,
        "episode": episode,
        "turns": turns_shown(episode.run, piece, notes),
        "person": request.user,
        "agents": agents,
    }
    if request.GET.get("part") == "turns":
        level = level_of(request.user, episode.run.project)
        context |= {"can_edit": level in (Level.OWNER, Level.EDITOR), "owner": level == Level.OWNER}
        return render(request, "transcripts/_turns.html", context)
    older, newer = neighbours(episode)
    tones = role_tones(episode.run.config)
    transcript = {
        "episode": episode.pk,
        "count": piece.count,
        "piece": PIECE,
        "first": piece.first,
        "boards": bool(piece.final_board) or any(turn.get("board") for turn in piece.turns),
        "tones": tones,
        "step": "" if agents.tokens else agents.step,
        "roles": len(episode.run.config["team"]["roles"]),
    }
    context |= run_context(request.user, episode.run, "transcripts", transcript=transcript) | {
        "notes": [note for note in notes if note.turn is None],
        "labels": list(dict.fromkeys([*services.labels_of(episode.run), *services.USUAL])),
        "piece": piece,
        "before": max(1, piece.first + 1 - PIECE) if piece.first else None,
        "after": piece.first + PIECE + 1 if piece.first + PIECE < piece.count else None,
        "tones": tones,
        "seconds": episode.ended - episode.started,
        "same_task": plays_of(episode, SAME_TASK),
        "quarters": quarters_read(episode.run),
        "older": older,
        "newer": newer,
    }
    return render(request, "transcripts/detail.html", context)


def turns_shown(run: Run, piece: Piece, notes: Iterable[EpisodeNote] = ()) -> list[dict[str, Any]]:
    """Return the turns of an episode, each with the context of its block on the page."""
    tones = role_tones(run.config)
    noted: dict[int | None, list[EpisodeNote]] = {}
    for note in notes:
        noted.setdefault(note.turn, []).append(note)
    return [
        _turn(number, turn, tones.get(turn["role"], 0)) | {"notes": noted.get(number, [])}
        for number, turn in enumerate(piece.turns, piece.first + 1)
    ]


def _turn(number: int, turn: Mapping[str, Any], tone: int) -> dict[str, Any]:
    carried_on = 0 <= turn["executed"] < len(turn["candidates"])
    executed = turn["candidates"][turn["executed"]] if carried_on else None
    return {
        **turn,
        "number": number,
        "round": turn["index"] + 1,
        "tone": tone,
        "said": executed,
        "stretches": stretches(executed) if executed else [],
        "valued": any(candidate.get("value") is not None for candidate in turn["candidates"]),
        "agents": len(executed["text"].splitlines()) if executed else 0,
        "version": max(executed["versions"], default=None) if executed else None,
        "shown": [
            {**candidate, "place": index, "executed": index == turn["executed"]}
            for index, candidate in enumerate(turn["candidates"])
        ],
    }


def stretches(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a response's text in segments with or without loss; empty if all of it has loss, or the masks are unknown.

    Tokens are located in the text in order: special tokens are not in it, and some characters are several tokens.
    """
    masks = response.get("masks") or []
    if all(masks):
        return []
    text, offset = response["text"], 0
    segments: list[dict[str, Any]] = []
    for token, learnt in zip(response["tokens"], masks, strict=False):
        start = text.find(token, offset, offset + len(token) + _GAP) if token else -1
        if start < 0:
            continue
        if not segments or segments[-1]["learnt"] != bool(learnt):
            segments.append({"text": "", "learnt": bool(learnt)})
        end = start + len(token)
        segments[-1]["text"] += text[offset:end]
        offset = end
    if segments:
        segments[-1]["text"] += text[offset:]
    return segments


def neighbours(episode: Episode) -> tuple[Episode | None, Episode | None]:
    """Return the previous and the next episode, in order of arrival."""
    near = Episode.objects.of_run(episode.run_id).defer("words", "groups")
    older = near.filter(pk__lt=episode.pk).order_by("-pk")[:1]
    newer = near.filter(pk__gt=episode.pk).order_by("pk")[:1]
    both = {row.pk < episode.pk: row for row in older.union(newer, all=True)}
    return both.get(True), both.get(False)


@require_POST
def note_write(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Add a label or note to an episode or a turn; redirects back."""
    episode = _episode(request, run_id, pk)
    posted = {name: request.POST[name] for name in NoteBody.model_fields if request.POST.get(name)}
    try:
        note = services.note_add(request.user, episode, parsed(NoteBody, posted))
    except ConfigError as error:
        messages.error(request, str(error))
        return _back(episode, None)
    return _back(episode, note.turn)


@require_POST
def note_drop(request: HttpRequest, run_id: str, pk: int, note: int) -> HttpResponse:
    """Remove a note."""
    episode = _episode(request, run_id, pk)
    episode_note = services.note_get(episode, note)
    services.note_remove(request.user, episode_note)
    return _back(episode, episode_note.turn)


def _back(episode: Episode, turn: int | None) -> HttpResponse:
    address = reverse("transcripts:detail", args=[episode.run_id, episode.pk])
    return redirect(f"{address}#turn-{turn}" if turn else address)


@require_GET
def tree_page(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Show the tree around the turn `turn`, and its group."""
    episode = _episode(request, run_id, pk)
    if not agent_pages(episode.run.config).tokens:
        # one action per step: there are no candidates to compare
        return redirect("transcripts:detail", run_id, pk)
    asked = lenient(Place, request.GET)
    number = asked.turn
    levels, count = tree_read(episode, (number - 1) // LEVELS * LEVELS + 1)
    if number > max(count, 1):
        raise Http404(f"episode {pk} has {count} answers")
    tones = role_tones(episode.run.config)
    chosen = next((level for level in levels if level["number"] == number), None)
    index = _place(chosen, asked.candidate)
    older, newer = neighbours(episode)
    context = run_context(request.user, episode.run, "transcripts") | {
        "episode": episode,
        "levels": _levels(levels, tones),
        "group": _group(episode, number, tones) if chosen else None,
        "number": number,
        "place": index,
        "count": count,
        "before": levels[0]["number"] - 1 if levels else 0,
        "after": levels[-1]["number"] + 1 if levels and levels[-1]["number"] < count else 0,
        "older": older,
        "newer": newer,
    }
    return render(request, "transcripts/tree.html", context)


def _place(chosen: dict[str, Any] | None, candidate: int | None) -> int:
    """Return the index of the requested candidate (from 1), else of the executed one."""
    if chosen is None:
        return 0
    wanted = chosen["executed"] or 0 if candidate is None else candidate - 1
    return min(wanted, max(0, len(chosen["candidates"]) - 1))


def _levels(levels: Iterable[Mapping[str, Any]], tones: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the turns of the tree: their candidates, and lines to them from the previously executed one."""
    shown: list[dict[str, Any]] = []
    begin: int | None = None
    for level in levels:
        mean, _ = spread(list(map(compared, level["candidates"])))
        entries = folded(level["candidates"], level["executed"])
        nodes = [_node(entry, level["executed"], mean) for entry in entries]
        selected = next((index for index, node in enumerate(nodes) if node["executed"]), None)
        shown.append({
            **level,
            "tone": tones.get(level["role"], 0),
            "nodes": nodes,
            "ends": [(index + 0.5) * PITCH for index in range(len(nodes))],
            "start": None if begin is None else (begin + 0.5) * PITCH,
            "width": max(len(nodes), (begin or 0) + 1) * PITCH,
            "executed_place": selected,
        })  # fmt: skip
        begin = selected
    return shown


def _node(entry: Mapping[str, Any], executed: int | None, mean: float | None) -> dict[str, Any]:
    direction, heat = lean(entry, mean)
    selected, count = entry["index"] == executed, len(entry["numbers"])
    words = [
        f"reward {reward(entry['reward'])}",
        "" if entry["value"] is None else f"value {reward(entry['value'])}",
        "" if entry["advantage"] is None else f"advantage {reward(entry['advantage'])}",
        "selected" if selected else "",
        f"{count} equal answers" if count > 1 else "",
    ]
    label = ", ".join(filter(None, words))
    return {**entry, "direction": direction, "heat": heat, "executed": selected, "words": label}


def _group(episode: Episode, number: int, tones: dict[str, int]) -> dict[str, Any]:
    turn = turn_get(episode, number)
    group = group_of(turn, number)
    entries = folded(group["candidates"], group["executed"])
    for entry in entries:
        most = max(FEWEST_TOKENS, FIRST_TOKENS // len(entries))
        tokens = tokens_of(turn, number, entry["index"], 0, most) | {"prompt_ids": []}  # the same for all
        entry["first_tokens"] = orjson.dumps(tokens).decode()
        entry["direction"], entry["heat"] = lean(entry, group["mean"])
        entry["executed"] = entry["index"] == group["executed"]
    return group | {
        "tone": tones.get(group["role"], 0),
        "size": len(group["candidates"]),
        "candidates": entries,
    }


@require_GET
def probes_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show a strip per task with the responses at every evaluation."""
    run, asked = run_get(request.user, run_id), lenient(Strips, request.GET)
    strips, more = strips_read(run, asked.kind, asked.page, asked.task)
    context = run_context(request.user, run, "transcripts") | {
        "strips": strips,
        "quarters": quarters_read(run),
        "kind": asked.kind,
        "kinds": list(KINDS.items())[1:],
        "task": asked.task,
        "tones": role_tones(run.config),
        "next": asked.page + 1 if more else None,
        "before": asked.page - 1 if asked.page else None,
    }
    return render(request, "transcripts/probes.html", context)


@require_GET
def difference_page(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Show the differences between this episode and `other`."""
    one = _episode(request, run_id, pk)
    wanted = lenient(Against, request.GET).other
    other = episode_get(request.user, wanted) if wanted else one
    one, other = sorted((one, other), key=lambda episode: (episode.iteration, episode.pk))
    context = run_context(request.user, one.run, "transcripts") | {
        "one": one,
        "other": other,
        "plays": plays_of(one, PLAYS),
        "sides": [
            {"label": "Earlier", "shown": one, "fixed": other},
            {"label": "Later", "shown": other, "fixed": one},
        ],
        "turns": difference(one, other),
        "tones": role_tones(one.run.config),
    }
    return render(request, "transcripts/diff.html", context)

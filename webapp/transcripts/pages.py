"""Context of the transcript pages."""

from collections.abc import Iterable, Mapping
from typing import Any

from webapp.agents.registry import agent_pages
from webapp.common.tones import role_tones
from webapp.runs.models import Run
from webapp.transcripts.bodies import PIECE, Piece
from webapp.transcripts.completion import newest_of
from webapp.transcripts.forms import FEW, KINDS, OUTCOMES
from webapp.transcripts.models import Episode, EpisodeNote
from webapp.transcripts.notes import labels_of
from webapp.transcripts.quarters import QUARTERS, has_success, quarters_read

STRIP = 24
"""Number of episodes of the same task shown side by side."""

_GAP = 16
"""Maximum characters between two tokens of a response: spaces, and text without a token of its own."""
TRUTHS = (("truncated", "Cut off"), ("probe", "Probe"))
NETWORK_TRUTHS = (("failed", "Error"), ("probe", "Probe"))
"""Filters in place of TRUTHS for runs without success and without responses that could be cut off."""


def filters_context(run: Run, filters: Mapping[str, Any], noted: bool = True) -> dict[str, Any]:
    """Return the options of the filter form; noted: labels too. A single iteration is shown as a range of one."""
    shown = {name: value for name, value in filters.items() if name != "noted"}
    if (iteration := shown.pop("iteration", None)) is not None:
        shown |= {"iteration_min": iteration, "iteration_max": iteration}
    newest = newest_of(run)
    success = has_success(run)
    return {
        "filters": shown,
        "quarters": quarters_read(run),
        "quarter_names": [] if success else QUARTERS,
        "more_filters": len(shown.keys() - set(FEW)),
        "kinds": KINDS,
        "outcomes": OUTCOMES if success else [],
        "truths": TRUTHS if success else NETWORK_TRUTHS,
        "labels": _names(labels_of(run), None, shown.get("label")) if noted else [],
        "roles": _names(role_tones(run.config), newest.get("rewards"), shown.get("role")),
        "policies": _names(run.config.get("policies"), newest.get("versions"), shown.get("policy")),
        "environments": _names(
            [run.config.get("environment", {}).get("type")], None, shown.get("environment")
        ),
    }


def _names(known: Iterable[str] | None, met: Iterable[str] | None, chosen: str | None) -> list[str]:
    """Return distinct names: those of the config, of the newest episode, and the selected one."""
    return [name for name in dict.fromkeys([*(known or ()), *(met or ()), chosen]) if name]


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
        "agents": len(executed["text"].splitlines()) if executed else 0,
        "version": max(executed["versions"], default=None) if executed else None,
        "shown": [
            _candidate(index, candidate, turn["executed"])
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


def _candidate(index: int, candidate: Mapping[str, Any], executed: int) -> dict[str, Any]:
    return {**candidate, "place": index, "executed": index == executed, "length": len(candidate["token_ids"])}


def transcript_data(episode: Episode, piece: Piece) -> dict[str, Any]:
    """Return the data with which the browser loads the rest of an episode, its boards and its tokens on demand."""
    boards = [piece.final_board, *(turn.get("board") for turn in piece.turns)]
    return {
        "episode": episode.pk,
        "count": piece.count,
        "piece": PIECE,
        "first": piece.first,
        "boards": any(boards),
        "tones": role_tones(episode.run.config),
        "step": "" if agent_pages(episode.run.config).tokens else agent_pages(episode.run.config).step,
        "roles": len(episode.run.config["team"]["roles"]),
    }


def same_task(episode: Episode) -> list[Episode]:
    """Return episodes of the same task and kind over training, oldest first; the last STRIP of them."""
    plays = Episode.objects.filter(run=episode.run_id, task=episode.task, kind=episode.kind).defer(
        "words", "groups"
    )
    return list(reversed(plays.order_by("-iteration", "-id")[:STRIP]))


def neighbours(episode: Episode) -> tuple[Episode | None, Episode | None]:
    """Return the previous and the next episode, in order of arrival."""
    near = Episode.objects.of_run(episode.run_id).defer("words", "groups")
    older = near.filter(pk__lt=episode.pk).order_by("-pk")[:1]
    newer = near.filter(pk__gt=episode.pk).order_by("pk")[:1]
    both = {row.pk < episode.pk: row for row in older.union(newer, all=True)}
    return both.get(True), both.get(False)

"""The page of an episode's tree: turns from top to bottom, the candidates of the selected one side by side."""

from typing import Any

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from webapp.agents.registry import agent_pages
from webapp.common.formats import reward
from webapp.common.tones import role_tones
from webapp.runs.frame import run_context
from webapp.transcripts.forms import Chosen
from webapp.transcripts.groups import LEVELS, folded, group_of, lean, spread, tree_read
from webapp.transcripts.models import Episode
from webapp.transcripts.pages import neighbours
from webapp.transcripts.selectors import episode_get, turn_get
from webapp.transcripts.tokens import tokens_of

PITCH = 26
"""Pixels between adjacent candidates of the tree; the same as in static/css/tree.css."""

FIRST_TOKENS, FEWEST_TOKENS = 640, 20
"""Tokens that the page of a group contains, shared by its candidates, and of each of many; the browser requests the others."""


@require_GET
def tree_page(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Show the tree around the turn `turn`, and its group."""
    episode = episode_get(request.user, pk)
    if episode.run_id != run_id:
        raise Http404
    if not agent_pages(episode.run.config).tokens:
        return redirect(
            "transcripts:detail", run_id, pk
        )  # one action per step: there are no candidates to compare
    number, candidate = Chosen(request.GET).values()
    levels, count = tree_read(episode, (number - 1) // LEVELS * LEVELS + 1)
    if number > max(count, 1):
        raise Http404(f"episode {pk} has {count} answers")
    tones = role_tones(episode.run.config)
    chosen = next((level for level in levels if level["number"] == number), None)
    index = _place(chosen, candidate)
    older, newer = neighbours(episode)
    context = run_context(request.user, episode.run, "transcripts") | {
        "episode": episode,
        "levels": [
            _level(level, before, tones) for before, level in zip([None, *levels], levels, strict=False)
        ],
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


def _level(level: dict[str, Any], before: dict[str, Any] | None, tones: dict[str, int]) -> dict[str, Any]:
    """Return a turn of the tree: its candidates, and lines to them from the previously executed one."""
    mean, _ = spread([candidate["reward"] for candidate in level["candidates"]])
    nodes = []
    for candidate in folded(level["candidates"], level["executed"]):
        direction, heat = lean(candidate, mean)
        executed = candidate["index"] == level["executed"]
        count = len(candidate["numbers"])
        equal = f"{count} equal answers" if count > 1 else ""
        words = [f"reward {reward(candidate['reward'])}", "selected" if executed else "", equal]
        if candidate["advantage"] is not None:
            words.insert(1, f"advantage {reward(candidate['advantage'])}")
        node = {
            "direction": direction,
            "heat": heat,
            "executed": executed,
            "words": ", ".join(filter(None, words)),
        }
        nodes.append(candidate | node)
    begin = None if before is None else _executed_place(before)
    ends = [(index + 0.5) * PITCH for index in range(len(nodes))]
    width = max(len(nodes), (begin or 0) + 1) * PITCH
    start = None if begin is None else (begin + 0.5) * PITCH
    return level | {
        "tone": tones.get(level["role"], 0),
        "nodes": nodes,
        "ends": ends,
        "start": start,
        "width": width,
        "executed_place": _executed_place(level),
    }


def _executed_place(level: dict[str, Any]) -> int | None:
    """Return the place of the executed candidate among the folded ones."""
    entries = folded(level["candidates"], level["executed"])
    return next((index for index, entry in enumerate(entries) if entry["index"] == level["executed"]), None)


def _group(episode: Episode, number: int, tones: dict[str, int]) -> dict[str, Any]:
    turn = turn_get(episode, number)
    group = group_of(turn, number)
    entries = folded(group["candidates"], group["executed"])
    for entry in entries:
        most = max(FEWEST_TOKENS, FIRST_TOKENS // len(entries))
        tokens = tokens_of(turn, number, entry["index"], most=most) | {"prompt_ids": []}  # the same for all
        entry["first_tokens"] = orjson.dumps(tokens).decode()
        entry["direction"], entry["heat"] = lean(entry, group["mean"])
        entry["executed"] = entry["index"] == group["executed"]
    return group | {
        "tone": tones.get(group["role"], 0),
        "size": len(group["candidates"]),
        "candidates": entries,
    }

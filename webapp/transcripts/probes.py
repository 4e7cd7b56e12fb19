"""Probes: the episodes of one task at every evaluation, and the differences between two of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from django.db.models import Count, IntegerField, Max
from django.db.models.functions import Cast

from troupe_client.documents import transcripts as documents
from webapp.runs.models import Run
from webapp.transcripts.bodies import documents_read
from webapp.transcripts.models import Episode

TASKS = 12
"""Number of tasks per page."""
FRAMES = 40
"""Maximum number of episodes shown per task; of more, evenly spaced ones, including the first and the last."""
MOST_TURNS = 400
MOST_WORDS = 4000
"""Maximum number of words of a response that are compared; the rest is shown without comparison."""
LINES = 6
"""Number of responses in a frame."""
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass
class Frame:
    """One episode in short form."""

    episode: Episode
    lines: list[tuple[str, str]]
    more_turns: int = 0
    """Number of further responses that are not shown."""
    before: int | None = None
    """Id of the previous episode."""


@dataclass
class Strip:
    """The shown episodes of a task, oldest first."""

    task: str
    title: str
    plays: int
    frames: list[Frame] = field(default_factory=list)


def strips_read(run: Run, kind: str = "eval", page: int = 0, task: str = "") -> tuple[list[Strip], bool]:
    """Return the strips of an evaluation's tasks, probes first, and whether there are further pages."""
    played = Episode.objects.filter(run=run, kind=kind)
    if task:
        played = played.filter(task=task)
    tasks = list(
        played.values("task")
        .annotate(plays=Count("pk"), probe=Max(Cast("probe", IntegerField())), title=Max("title"))
        .order_by("-probe", "task")[page * TASKS : (page + 1) * TASKS + 1]
    )
    strips = [Strip(task["task"], task["title"], task["plays"]) for task in tasks[:TASKS]]
    _fill(strips, run, kind)
    return strips, len(tasks) > TASKS


def probe_documents(run: Run, kind: str, page: int, task: str) -> documents.Probes:
    """Return the document of the strips."""
    strips, more = strips_read(run, kind, page, task)
    results = [
        documents.Probe(task=strip.task, title=strip.title, plays=[_play(frame) for frame in strip.frames])
        for strip in strips
    ]
    return documents.Probes(more=more, results=results)


def _play(frame: Frame) -> documents.ProbePlay:
    facts = {
        name: getattr(frame.episode, name) for name in ("id", "iteration", "outcome", "success", "failed")
    }
    answers = [documents.ProbeAnswer(role=role, text=text) for role, text in frame.lines]
    return documents.ProbePlay(**facts, return_=frame.episode.episode_return, said=answers)


def _fill(strips: Sequence[Strip], run: Run, kind: str) -> None:
    plays = Episode.objects.filter(run=run, kind=kind, task__in=[strip.task for strip in strips])
    keys: dict[str, list[int]] = {}
    for task, pk in plays.order_by("iteration", "pk").values_list("task", "pk"):
        keys.setdefault(task, []).append(pk)
    picked = {task: _picked(some) for task, some in keys.items()}
    wanted = [pk for some in picked.values() for pk in some]
    episodes = Episode.objects.defer("words", "groups").in_bulk(wanted)
    bodies = documents_read(list(episodes.values()))
    for strip in strips:
        before = None
        for pk in picked.get(strip.task, []):
            lines = said_lines(bodies[pk])
            strip.frames.append(Frame(episodes[pk], lines[:LINES], max(0, len(lines) - LINES), before))
            before = pk


def _picked(keys: Sequence[int]) -> Sequence[int]:
    """Return at most FRAMES of the keys at equal distances, the first and the last included."""
    if len(keys) <= FRAMES:
        return keys
    return [keys[round(index * (len(keys) - 1) / (FRAMES - 1))] for index in range(FRAMES)]


def said_lines(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (role, executed response) of every turn."""
    return [
        (turn["role"], turn["candidates"][turn["executed"]]["text"] if turn["candidates"] else "")
        for turn in document.get("turns", [])
    ]


def plays_of(episode: Episode, most: int) -> list[Episode]:
    """Return the last `most` episodes of the same task and kind, oldest first."""
    plays = Episode.objects.filter(run=episode.run_id, task=episode.task, kind=episode.kind).defer(
        "words", "groups"
    )
    return list(reversed(plays.order_by("-iteration", "-pk")[:most]))


def difference(one: Episode, other: Episode) -> list[dict[str, Any]]:
    """Return the differences turn by turn: [{"number", "role", "same", "saw": parts, "said": parts}].

    Parts are {"op": equal | delete | insert, "text"}: text only in `one` is deleted, text only in `other` inserted.
    """
    bodies = documents_read([one]) | documents_read([other])
    pairs = zip_longest(
        *(bodies[episode.pk].get("turns", [])[:MOST_TURNS] for episode in (one, other)), fillvalue=None
    )
    return [_turn(number, left, right) for number, (left, right) in enumerate(pairs, 1)]


def _turn(number: int, left: Any, right: Any) -> dict[str, Any]:
    roles = list(dict.fromkeys(turn["role"] for turn in (left, right) if turn))
    saw, answered = parts_differ(_saw(left), _saw(right)), parts_differ(_said(left), _said(right))
    return {
        "number": number,
        "role": " → ".join(roles),
        "same": all(part["op"] == "equal" for part in (*saw, *answered)),
        "saw": saw,
        "said": answered,
    }


def _saw(turn: Any) -> str:
    return "\n".join(message.get("content", "") for message in turn["messages"]) if turn else ""


def _said(turn: Any) -> str:
    return said_lines({"turns": [turn]})[0][1] if turn else ""


def parts_differ(left: str, right: str) -> list[dict[str, str]]:
    """Return two texts as parts, word by word."""
    before, after = _WORD.findall(left), _WORD.findall(right)
    rests = ["".join(words[MOST_WORDS:]) for words in (before, after)]
    before, after = before[:MOST_WORDS], after[:MOST_WORDS]
    parts = []
    for op, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if op == "equal":
            parts.append(("equal", "".join(before[a:b])))
        else:
            parts += [("delete", "".join(before[a:b])), ("insert", "".join(after[c:d]))]
    parts += [("equal", rests[0])] if rests[0] == rests[1] else [("delete", rests[0]), ("insert", rests[1])]
    return [{"op": op, "text": text} for op, text in parts if text]

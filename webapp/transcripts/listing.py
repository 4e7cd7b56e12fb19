"""A page of the list of episodes: newest first, by cursor, with the context of the searched words."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.runs.models import Run
from webapp.transcripts.bodies import unpacked
from webapp.transcripts.models import Episode, EpisodeBody
from webapp.transcripts.selectors import episodes_list
from webapp.transcripts.words import pattern

PER_PAGE = 60
AROUND = 60
"""Number of characters shown on either side of a match."""


@dataclass(frozen=True)
class Hit:
    """A match of the search: the turn (from 1; None: in the facts), and the text before, itself, after."""

    turn: int | None
    role: str
    before: str
    found: str
    after: str


@dataclass(frozen=True)
class Slice:
    """A page of the list."""

    episodes: list[Episode]
    older: int | None
    """Cursor of the next page, if there is one."""


def stream_read(
    run: Run, filters: Mapping[str, Any], before: int | None = None, after: int | None = None
) -> Slice:
    """Return at most PER_PAGE episodes older than `before` and newer than `after` (ids), newest first, each with its `hit`."""
    episodes = episodes_list(run, filters)
    if before is not None:
        episodes = episodes.filter(pk__lt=before)
    if after is not None:
        episodes = episodes.filter(pk__gt=after)
    rows = list(episodes[: PER_PAGE + 1])
    shown = rows[:PER_PAGE]
    _hits_find(shown, str(filters.get("q", "")))
    return Slice(shown, shown[-1].pk if len(rows) > PER_PAGE else None)


def _hits_find(episodes: Iterable[Episode], asked: str) -> None:
    wanted = pattern(asked)
    bodies = {}
    if wanted:
        bodies = dict(EpisodeBody.objects.filter(episode__in=list(episodes)).values_list("pk", "data"))
    for episode in episodes:
        data = bodies.get(episode.pk)
        document = unpacked(data) if data else {}
        episode.hit = _hit(document, wanted) if wanted else None  # type: ignore[attr-defined]


def _hit(document: Mapping[str, Any], wanted: Any) -> Hit | None:
    """Return the first match in the executed responses, else in the prompts, else in another candidate."""
    turns = document.get("turns", [])
    executed = [
        (number, turn["role"], turn["candidates"][turn["executed"]]["text"])
        for number, turn in enumerate(turns, 1)
        if 0 <= turn["executed"] < len(turn["candidates"])
    ]
    seen = [
        (number, turn["role"], message.get("content", ""))
        for number, turn in enumerate(turns, 1)
        for message in turn["messages"]
    ]
    others = [
        (number, turn["role"], candidate["text"])
        for number, turn in enumerate(turns, 1)
        for candidate in turn["candidates"]
    ]
    for number, role, text in (*executed, *seen, *others):
        if match := wanted.search(text):
            start, end = match.span()
            before = ("…" if start > AROUND else "") + text[max(0, start - AROUND) : start]
            after = text[end : end + AROUND] + ("…" if len(text) > end + AROUND else "")
            return Hit(number, role, before, match.group(), after)
    return None

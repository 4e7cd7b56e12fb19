"""A page of the list of episodes: newest first, by cursor, with the context of the searched words."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.runs.models import Run
from webapp.transcripts.bodies import unpacked
from webapp.transcripts.filters import words_hits
from webapp.transcripts.models import Episode
from webapp.transcripts.selectors import episodes_list
from webapp.transcripts.words import pattern, terms

PER_PAGE = 60
EXAMINED = 20_000
"""Maximum number of episodes that a page with filters examines, so that its time does not grow with the run."""
COUNTED = 1000
"""Maximum number of matching episodes that are counted on a page."""
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
    examined: bool = False
    """Whether the page ends because EXAMINED episodes were examined; older ones are not."""
    hits: list[int] | None = None
    """Ids of the episodes with rare words."""
    matching: tuple[int, bool] | None = None
    """On the first page of examined episodes: the number of those that match, at most COUNTED, and whether others match or are not
    examined."""


def stream_read(
    run: Run, filters: Mapping[str, Any], before: int | None = None, after: int | None = None
) -> Slice:
    """Return at most PER_PAGE episodes older than `before` and newer than `after` (ids), newest first, each with its `hit`.

    Of the episodes newer than `after`, the newest EXAMINED are examined; the page does not state the rest.
    """
    asked = str(filters.get("q", ""))
    hits = words_hits(run, asked) if terms(asked) else None
    if terms(asked):
        filters = {**filters, "hits": hits}
    if is_examined(filters):
        return _examined_page(run, filters, before, after)
    episodes = episodes_list(run, filters)
    if after is not None:
        episodes = episodes.filter(pk__gt=after)
    if before is not None:
        episodes = episodes.filter(pk__lt=before)
    rows = list((episodes.select_related("body") if pattern(asked) else episodes)[: PER_PAGE + 1])
    shown = rows[:PER_PAGE]
    _hits_find(shown, asked)
    return Slice(shown, shown[-1].pk if len(rows) > PER_PAGE else None, hits=hits)


def _examined_page(run: Run, filters: Mapping[str, Any], before: int | None, after: int | None) -> Slice:
    """Return a page of the matching ones of at most EXAMINED episodes. The first page also counts them: both need the same ids."""
    first = before is None and after is None
    most = COUNTED if first else PER_PAGE
    examined = Episode.objects.of_run(run).newest(EXAMINED, before, after)
    ids = list(episodes_list(run, filters, examined).values_list("pk", flat=True)[: most + 1])
    floor = floor_of(run, before, after) if len(ids) <= most else None
    asked = str(filters.get("q", ""))
    episodes = episodes_list(run).filter(pk__in=ids[:PER_PAGE])
    shown = list(episodes.select_related("body") if pattern(asked) else episodes)
    _hits_find(shown, asked)
    matching = (min(len(ids), COUNTED), len(ids) > COUNTED or floor is not None) if first else None
    if len(ids) > PER_PAGE:
        return Slice(shown, shown[-1].pk, matching=matching)
    floor = floor if after is None else None
    return Slice(shown, floor, floor is not None, matching=matching)


def is_examined(filters: Mapping[str, Any]) -> bool:
    """Whether a page examines only EXAMINED episodes: there are filters, and the index of words has not found the episodes."""
    return filters.get("hits") is None and is_narrowed(filters)


def is_narrowed(filters: Mapping[str, Any]) -> bool:
    """Whether some filter must be checked for each episode; `noted` is none."""
    return bool(set(filters) - {"noted", "hits"})


def floor_of(run: Run, before: int | None = None, after: int | None = None) -> int | None:
    """Return the id of the last of EXAMINED episodes between `after` and `before`; None if there are no older ones of them."""
    if sum(run.episode_counts.values()) <= EXAMINED:
        return None
    episodes = Episode.objects.of_run(run).order_by("-pk")
    if after is not None:
        episodes = episodes.filter(pk__gt=after)
    if before is not None:
        episodes = episodes.filter(pk__lt=before)
    ids = list(episodes.values_list("pk", flat=True)[EXAMINED - 1 : EXAMINED + 1])
    return ids[0] if len(ids) == 2 else None


def _hits_find(episodes: Iterable[Episode], asked: str) -> None:
    wanted = pattern(asked)
    for episode in episodes:
        body = getattr(episode, "body", None) if wanted else None
        document = unpacked(body.data) if body else {}
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

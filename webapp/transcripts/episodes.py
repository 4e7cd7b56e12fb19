"""Reading the episodes of a run: filters, a page of the list with the context of the searched words, counts, quarters of returns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet
from django.http import Http404

from troupe_client.documents import transcripts as documents
from troupe_client.documents.transcripts import RECENT
from webapp.accounts.permissions import Person
from webapp.agents.registry import agent_pages
from webapp.runs.frame import frame_of
from webapp.runs.models import Run
from webapp.runs.selectors import runs_visible
from webapp.transcripts.bodies import unpacked
from webapp.transcripts.models import Episode
from webapp.transcripts.query import filters_condition, query_condition
from webapp.transcripts.words import pattern, terms, words_fit, words_hits

PER_PAGE = 60
EXAMINED = 20_000
"""Maximum number of episodes that a page with filters examines, so that its time does not grow with the run."""
COUNTED = 1000
"""Maximum number of matching episodes that are counted on a page."""
AROUND = 60
"""Number of characters shown on either side of a match."""
FEWEST = 4
"""Minimum number of stored episodes for quarters."""
FEW = 100
"""Newest episodes that show whether episodes of a run have success."""
_BOUNDS = """
SELECT count(*), percentile_cont(array[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY episode_return), bool_or(success IS NOT NULL)
FROM (SELECT episode_return, success, failed FROM transcripts_episode WHERE run_id IN (%s, '') ORDER BY run_id, id DESC LIMIT %s) AS newest
WHERE NOT failed AND abs(episode_return) < 'infinity'
"""
Bounds = tuple[float, float, float]


def episode_get(user: Person, pk: int) -> Episode:
    """Return one episode. Raises Http404, also for projects that are not visible to the user."""
    episodes = Episode.objects.select_related("run__project", "run__owner").defer(
        "words", "groups", "run__facts"
    )
    episode = episodes.filter(pk=pk, run__in=runs_visible(user)).first()
    if episode is None:
        raise Http404(f"there is no episode {pk} that is visible to you")
    return episode


def episode_facts(episode: Episode) -> dict[str, Any]:
    """Return the fields of the episode's document."""
    names = documents.Episode.model_fields
    return {"run": episode.run_id} | {name: getattr(episode, name) for name in names if name != "run"}


def episodes_list(
    run: Run, filters: Mapping[str, Any] | None = None, among: QuerySet[Episode] | None = None
) -> QuerySet[Episode]:
    """Return episodes newest first, matching the values of EpisodeFilters.

    among: the episodes of the run that are examined; None: all. A filter "hits" has the ids of the episodes with rare words;
    a filter "noted" that is false forbids queries of labels and notes. Raises FilterError for an invalid query.
    """
    filters = filters or {}
    examined = Episode.objects.of_run(run) if among is None else among
    condition = query_condition(run, str(filters.get("query", "")), noted=filters.get("noted", True))
    condition &= filters_condition(run, filters)
    if filters.get("quarter"):
        condition &= _in_quarter(run, int(filters["quarter"]))
    if terms(words := str(filters.get("q", ""))):
        hits = filters["hits"] if "hits" in filters else words_hits(run, words)
        condition &= words_fit(run, words, hits)
    return examined.order_by("-pk").defer("words", "groups", "run__facts").filter(condition)


def _in_quarter(run: Run, quarter: int) -> Q:
    if (bounds := quarters_read(run)) is None:
        return Q(pk__in=[])
    edges = [-inf, *bounds, inf]
    # NaN is above infinity in PostgreSQL
    finite = Q(failed=False, episode_return__gt=-inf, episode_return__lt=inf)
    return finite & Q(episode_return__gte=edges[quarter - 1], episode_return__lt=edges[quarter])


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
        episode.hit = _hit(unpacked(body.data)["turns"], wanted) if body else None  # type: ignore[attr-defined]


def _hit(turns: Sequence[Mapping[str, Any]], wanted: Any) -> Hit | None:
    """Return the first match in the executed responses, else in the prompts, else in another candidate."""
    for number, role, text in _texts(turns):
        if match := wanted.search(text):
            start, end = match.span()
            before = ("…" if start > AROUND else "") + text[max(0, start - AROUND) : start]
            after = text[end : end + AROUND] + ("…" if len(text) > end + AROUND else "")
            return Hit(number, role, before, match.group(), after)
    return None


def _texts(turns: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str, str]]:
    for number, turn in enumerate(turns, 1):
        if 0 <= turn["executed"] < len(turn["candidates"]):
            yield number, turn["role"], turn["candidates"][turn["executed"]]["text"]
    for part, name in (("messages", "content"), ("candidates", "text")):
        for number, turn in enumerate(turns, 1):
            yield from ((number, turn["role"], item.get(name, "")) for item in turn[part])


def counts_read(
    run: Run, filters: Mapping[str, Any] | None = None, page: Slice | None = None
) -> documents.EpisodeCounts:
    """Return the numbers of stored episodes, at most COUNTED of the matching ones. page: the page of the list with these filters."""
    kinds = run.episode_counts
    stored, train = sum(kinds.values()), kinds.get("train", 0)
    matching, more = _matching(run, filters, page) if filters and is_narrowed(filters) else (None, False)
    last = float(frame_of(run)["played"] or "NaN")
    return documents.EpisodeCounts(
        kept=stored, matching=matching, more=more, train=train, evaluation=stored - train,
        played=int(last) if isfinite(last) and last >= train else None,
        per_iteration=run.config.get("reporting", {}).get("episodes_per_iteration"),
    )  # fmt: skip


def _matching(run: Run, filters: Mapping[str, Any], page: Slice | None) -> tuple[int, bool]:
    """Return the number of matching episodes, at most COUNTED, and whether others match or are not examined.

    Without `hits` the newest EXAMINED episodes are examined, whichever page is shown.
    """
    if page and page.matching:
        return page.matching
    hits, most = page.hits if page else None, COUNTED
    if hits is not None and not is_narrowed({name: 0 for name in filters if name != "q"}):
        return min(len(hits), most), len(hits) > most
    examined = Episode.objects.of_run(run).newest(EXAMINED) if hits is None else None
    asked = {**filters, "hits": hits} if page and filters.get("q") else filters
    count = len(episodes_list(run, asked, examined).values_list("pk")[: most + 1])
    return min(count, most), count > most or (hits is None and floor_of(run) is not None)


def has_success(run: Run) -> bool:
    """Whether episodes of the run are solved or not; otherwise only their return rates them."""
    if agent_pages(run.config).tokens:
        return True
    newest = Episode.objects.of_run(run).order_by("-pk").values_list("success", flat=True)
    return any(success is not None for success in newest[:FEW])


def quarters_read(run: Run) -> Bounds | None:
    """Return the bounds of the quarters of the returns of the run's newest RECENT stored episodes, those with errors omitted.

    None for runs with success, for fewer than FEWEST episodes, and if most returns are equal.
    """
    if agent_pages(run.config).tokens:
        return None
    with connection.cursor() as database:
        database.execute(_BOUNDS, [run.pk, RECENT])
        count, bounds, success = database.fetchone()
    if count < FEWEST or success or bounds[0] == bounds[-1]:
        return None
    low, middle, high = bounds
    return low, middle, high

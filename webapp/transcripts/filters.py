"""Filters of a run's episodes."""

from collections.abc import Mapping
from math import inf
from typing import Any

from django.db import connection
from django.db.models import BooleanField, Exists, F, FloatField, Func, OuterRef, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from webapp.runs.models import Run
from webapp.transcripts.models import Episode, EpisodeNote
from webapp.transcripts.quarters import quarter_range, quarters_read
from webapp.transcripts.words import query, search_query, terms

Episodes = QuerySet[Episode]
Given = Mapping[str, Any]

RARE = 5000
"""Maximum number of matching episodes that are found by the word index alone."""
PROBED, FREQUENT = 2000, 60
"""Newest episodes of a run that are searched first, and the number of matches among them from which words are frequent."""
_HITS = """
WITH hits AS MATERIALIZED (SELECT id FROM transcripts_episode WHERE words @@ to_tsquery('simple', %s)) SELECT id FROM hits LIMIT %s
"""
OUTCOMES = {
    "success": {"success": True},
    "unsolved": {"success": False, "failed": False},
    "error": {"failed": True},
    "failed": {"failed": True},
}
"""Outcome -> lookups; failed is the earlier name of error."""
COLUMNS = {
    "kind": "kind", "iteration": "iteration", "iteration_min": "iteration__gte", "iteration_max": "iteration__lte",
    "role": "rewards__has_key", "policy": "versions__has_key", "tokens_min": "tokens__gte", "tokens_max": "tokens__lte",
    "turns_min": "turn_count__gte", "turns_max": "turn_count__lte", "truncated": "truncated", "failed": "failed",
    "probe": "probe", "environment": "environment", "task": "task",
}  # fmt: skip
"""Filter -> lookup of its column."""


class SomeVersion(Func):
    """Whether any policy of `versions` had this version."""

    function = "jsonb_path_exists"
    template = "%(function)s(%(expressions)s, '$.* ? (@ == %(version)d)')"
    output_field = BooleanField()


def episodes_narrow(episodes: Episodes, run: Run, filters: Given) -> Episodes:
    """Return the episodes that match all given filters of webapp.transcripts.forms.EpisodeFilters."""
    columns = {
        COLUMNS[name]: value for name, value in filters.items() if name in COLUMNS and _is_given(value)
    }
    episodes = episodes.filter(**columns)
    for narrow in (_outcome, _version, _reward):
        episodes = narrow(episodes, filters)
    if filters.get("label"):
        episodes = episodes.filter(
            Exists(EpisodeNote.objects.filter(episode=OuterRef("pk"), label=filters["label"]))
        )
    if filters.get("quarter"):
        episodes = _quarter(episodes, run, int(filters["quarter"]))
    words = str(filters.get("q", ""))
    if not terms(words):
        return episodes
    hits = filters["hits"] if "hits" in filters else words_hits(run, words)
    return episodes.filter(_condition(run, words, hits))


def words_fit(run: Run, asked: str) -> Q:
    """Return the condition that an episode has the words."""
    return _condition(run, asked, words_hits(run, asked))


def _condition(run: Run, asked: str, hits: list[int] | None) -> Q:
    return Q(words=search_query(query(run.pk, asked))) if hits is None else Q(pk__in=hits)


def words_hits(run: Run, asked: str) -> list[int] | None:
    """Return the ids of the episodes with rare words; None for frequent words.

    Of frequent words, reading episodes from the newest on soon finds a page. Rare ones are found by the word index, because the
    database overestimates their frequency. A phrase of frequent words counts as frequent: the index has no positions.
    """
    if sum(run.episode_counts.values()) > RARE and _is_frequent(run, asked):
        return None
    with connection.cursor() as database:
        database.execute(_HITS, [query(run.pk, asked), RARE + 1])
        hits = [pk for (pk,) in database.fetchall()]
    return hits if len(hits) <= RARE else None


def _is_frequent(run: Run, asked: str) -> bool:
    """Whether many of the newest episodes have the words."""
    newest = Episode.objects.of_run(run).newest(PROBED)
    near = newest.filter(words=search_query(query(run.pk, asked, phrases=False)))
    return len(near.values_list("pk")[:FREQUENT]) == FREQUENT


def _is_given(value: Any) -> bool:
    return value not in ("", None)


def _outcome(episodes: Episodes, filters: Given) -> Episodes:
    return episodes.filter(**OUTCOMES.get(str(filters.get("outcome", "")), {}))


def _quarter(episodes: Episodes, run: Run, quarter: int) -> Episodes:
    bounds = quarters_read(run)
    if bounds is None:
        return episodes.none()
    low, high = quarter_range(quarter, bounds)
    finite = Q(
        failed=False, episode_return__gt=-inf, episode_return__lt=inf
    )  # NaN is above infinity in PostgreSQL
    above = Q() if low is None else Q(episode_return__gte=low)
    return episodes.filter(finite & above & (Q() if high is None else Q(episode_return__lt=high)))


def _version(episodes: Episodes, filters: Given) -> Episodes:
    version = filters.get("version")
    if not _is_given(version):
        return episodes
    if filters.get("policy"):
        return episodes.filter(versions__contains={filters["policy"]: version})
    return episodes.filter(SomeVersion(F("versions"), version=int(str(version))))


def _reward(episodes: Episodes, filters: Given) -> Episodes:
    """Filter by the requested role's reward, or by the return. NaN is in no range, though PostgreSQL sorts it above infinity."""
    least, most = filters.get("reward_min"), filters.get("reward_max")
    if least is None and most is None:
        return episodes
    if filters.get("role"):
        episodes = episodes.annotate(
            reward=Cast(KeyTextTransform(str(filters["role"]), "rewards"), FloatField())
        )
    else:
        episodes = episodes.annotate(reward=F("episode_return"))
    low, high = -inf if least is None else least, inf if most is None else most
    return episodes.filter(Q(reward__gte=low) & Q(reward__lte=high))

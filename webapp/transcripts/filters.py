"""Filters of a run's episodes."""

from collections.abc import Mapping
from math import inf
from typing import Any

from django.db.models import BooleanField, Exists, F, FloatField, Func, OuterRef, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from webapp.runs.models import Run
from webapp.transcripts.models import Episode, EpisodeNote
from webapp.transcripts.quarters import quarter_range, quarters_read
from webapp.transcripts.words import query, terms

Episodes = QuerySet[Episode]
Given = Mapping[str, Any]

RARE = 2000
"""Maximum number of matching episodes for which the word index is queried first."""
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
    return episodes.filter(words_fit(run, words)) if terms(words) else episodes


def words_fit(run: Run, asked: str) -> Q:
    """Return the condition that an episode has the words. Rare words are looked up first: the database overestimates their
    frequency and would scan all episodes from the newest on; for common words that scan finds a page quickly.
    """
    wanted = query(run.pk, asked)
    hits = list(Episode.objects.filter(words=wanted).order_by().values_list("pk", flat=True)[: RARE + 1])
    return Q(pk__in=hits) if len(hits) <= RARE else Q(words=wanted)


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

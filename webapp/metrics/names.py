"""Names of metrics: the search among those of a run, the measures of a name, and the order of names by their importance.

A measure is the value that represents a series in one number: `eval/success` (the last), or `eval/success:max`. A name without a slash has
a prefix where it could be a config field or a fact of the run: `metric.loss`.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import connection

from webapp.common.searches import TOO_LONG, SearchRefused, search_limited
from webapp.metrics.models import Series
from webapp.runs.models import Run

MEASURES = {"last": "last_value", "max": "max_value", "min": "min_value", "first": "first_value"}
"""Measures after a colon, and their columns of Series; the default is the last value."""
PREFIX = "metric."


def is_metric(word: str) -> bool:
    """Whether the word can only be a metric."""
    return "/" in word or word.startswith(PREFIX)


def metric_word(key: str) -> str:
    """Return the word for the last value of a metric."""
    return key if "/" in key else PREFIX + key


def metric_read(word: str) -> tuple[str, str]:
    """Return key and measure of a metric's expression."""
    word = word.removeprefix(PREFIX)
    key, colon, measure = word.rpartition(":")
    return (key, measure) if colon and measure in MEASURES else (word, "last")


WORDS = tuple(
    map(
        re.compile,
        (
            r"(mean_)?(episode_|episodic_|ep_)?(reward|return|rew)s?(_mean)?",
            r"(mean_)?success(_rate)?|win_rate|solved|pass(@|_at_|_)\d+",
            r"(total_)?loss|nll|cross_entropy",
            r"(mean_)?acc(uracy)?|f1|score|exact_match|em|bleu|auc|map|m?iou|top_?\d",
            r"perplexity|ppl|bits_per_byte",
            r"rewards?/(?!.*std$).+",
            r"kl|kl_divergence|approx_kl|entropy",
            r"(mean_)?(episode_|episodic_|ep_)?len(gth)?(_mean)?",
            r".*_loss|loss/.*",
            r"rewards?_std|explained_variance|clip_?frac(tion)?|clip_ratio(/region_mean)?",
            r"grad(ient)?_norm",
            r"(lr|learning_rate)([-_/].+)?",
        ),
    )
)
"""Names of the usual metrics, the most important first. A name is compared without its split."""
SPLITS = ("train", "training", "eval", "evaluation", "val", "valid", "validation", "test", "dev")
_SPLIT = re.compile(rf"^({'|'.join(SPLITS)})[_/](?=.)")
_REPEATED = re.compile(rf"^({'|'.join(SPLITS)})/\1_")
_ASIDE = ("system/", "time/", "progress/", "compute/")
"""Metrics that describe the machine and the progress."""
_COUNTERS = re.compile(
    r"(.*[/_])?(epoch|step|iteration|(global|env|total)_steps|total_timesteps|n_updates|num_tokens|total_flos"
    r"|(step|preparation|wall|elapsed)_time|runtime|fps|sps|SPS|per_sec(ond)?)"
)
"""Counters and clocks."""


def by_importance(keys: Iterable[str]) -> list[str]:
    """Return the metrics whose names are WORDS, the most important first; if there are none, those of `without_counters`.

    keys: in the order in which the run has reported them.
    """
    listed = without_counters(keys)
    ranks = {key: _rank(key) for key in listed}
    named = [key for key in listed if ranks[key] < len(WORDS)]
    return sorted(named, key=lambda key: ranks[key]) or listed


def without_counters(keys: Iterable[str]) -> list[str]:
    """Return the metrics without those of the machine, counters, clocks, and means over another one (train/train_loss of train/loss).

    A run that reports nothing else keeps its counters and clocks.
    """
    listed = [key for key in keys if not key.startswith(_ASIDE)]
    known = {key for key in listed if not _REPEATED.match(key)}
    plain = [
        key
        for key in listed
        if not _COUNTERS.fullmatch(key) and (key in known or _without_repetition(key) not in known)
    ]
    return plain or listed


def without_split(key: str) -> str:
    """Return "loss" for train/loss, eval_loss and loss."""
    return _SPLIT.sub("", key)


def _without_repetition(key: str) -> str:
    """Return train/loss for train/train_loss."""
    return _REPEATED.sub(r"\1/", key)


def _rank(key: str) -> int:
    name = without_split(key)
    forms = (name, name.rpartition("/")[2])
    ranks = (index for index, word in enumerate(WORDS) if any(word.fullmatch(form) for form in forms))
    return next(ranks, len(WORDS))


LONGEST_SEARCH = 2.0
"""Seconds that a search by a regular expression may take."""
_MATCHED = """
WITH matched AS {materialized} (
  SELECT key, section, COALESCE(array_position(%(order)s::text[], section), 1000) AS rank FROM (
    SELECT key, CASE WHEN strpos(key, '/') > 0 THEN split_part(key, '/', 1) ELSE 'other' END AS section
    FROM metrics_series WHERE run_id = %(run)s AND key ILIKE ALL (%(words)s::text[]) AND (%(pattern)s = '' OR key ~* %(pattern)s)
  ) AS named
)
"""
_LISTED = """
SELECT key FROM matched WHERE (%(section)s = '' OR section = %(section)s) {after} ORDER BY rank, section, key LIMIT %(most)s
"""
_COUNTED = """
SELECT json_agg(json_build_array(section, count) ORDER BY rank, section)
FROM (SELECT rank, section, count(*) FROM matched GROUP BY rank, section) AS counted
"""


class BadPattern(ValueError):
    """A regular expression that cannot be used; the message states why."""


@dataclass(frozen=True)
class NameQuery:
    """Which metrics of a run are listed: those of a section (empty: all) that match; `order`: the sections that come first."""

    words: str = ""
    """All of them must occur in the name, in any case."""
    pattern: str = ""
    """A regular expression of Postgres, in any case."""
    section: str = ""
    order: Sequence[str] = ()


def names_reported(run: Run, keys: Iterable[str]) -> set[str]:
    """Return those of these names that are metrics of the run."""
    return set(Series.objects.filter(run=run, key__in=list(keys)).values_list("key", flat=True))


def names_first(run: Run, most: int, also: Iterable[str]) -> list[str]:
    """Return the first names in their order, and those of `also` that are metrics of the run."""
    names = Series.objects.filter(run=run).values_list("key", flat=True)
    return list(names.order_by("key")[:most].union(names.filter(key__in=list(also))).order_by("key"))


def names_list(run: Run, query: NameQuery, most: int, after: str = "") -> list[str]:
    """Return the first matching names, section by section, after the name `after`. Raises BadPattern."""
    position = "AND (rank, section, key) > (%(rank)s, %(of)s, %(after)s)" if after else ""
    section = after.partition("/")[0] if "/" in after else "other"
    rank = list(query.order).index(section) + 1 if section in query.order else 1000
    values: dict[str, Any] = {"rank": rank, "of": section, "after": after, "most": most}
    statement = _MATCHED.format(materialized="") + _LISTED.format(after=position)
    return [row[0] for row in _rows(run, query, statement, values)]


def names_page(run: Run, query: NameQuery, most: int) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the first matching names, and the numbers of matching names in all sections. Raises BadPattern.

    The names of the run are read once for both.
    """
    statement = f"SELECT ARRAY({_LISTED.format(after='')}), ({_COUNTED})"
    ((names, counts),) = _rows(
        run, query, _MATCHED.format(materialized="MATERIALIZED") + statement, {"most": most}
    )
    return names, [(section, count) for section, count in counts or []]


def names_like(run: Run, letters: str) -> list[str]:
    """Return the names that end with these letters, digits and underscores if all other characters are left out."""
    with connection.cursor() as database:
        database.execute(
            "SELECT key FROM metrics_series WHERE run_id = %s AND right(regexp_replace(lower(key), '[^a-z0-9_]', '', 'g'), %s) = %s "
            "ORDER BY key",
            [run.pk, len(letters), letters],
        )
        return [row[0] for row in database.fetchall()]


def _rows(run: Run, query: NameQuery, statement: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    words = [f"%{_escaped(word)}%" for word in query.words.split()]
    values |= {
        "run": run.pk,
        "order": list(query.order),
        "words": words,
        "pattern": query.pattern,
        "section": query.section,
    }
    limited = search_limited(LONGEST_SEARCH) if query.pattern else nullcontext()
    try:
        with limited, connection.cursor() as database:
            database.execute(statement, values)
            return list(database.fetchall())
    except SearchRefused as error:
        corrected = f"{error.reason}. Correct the expression, or search by words."
        raise BadPattern(TOO_LONG if error.reason == TOO_LONG else corrected) from error


def _escaped(word: str) -> str:
    """Return a text without the wildcards of LIKE."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")

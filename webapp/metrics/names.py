"""Names of the metrics of a run: search by the database, so that a page reads the names that it shows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DataError, OperationalError, connection, transaction

from webapp.metrics.models import Series
from webapp.runs.models import Run

LONGEST_SEARCH = 2000
"""Milliseconds that a search by a regular expression may take."""
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


def is_reported(run: Run, sections: Iterable[str]) -> bool:
    """Whether the run has a metric in one of these sections."""
    series = Series.objects.filter(run=run)
    return any(series.filter(key__startswith=f"{section}/").exists() for section in sections)


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
    try:
        with connection.cursor() as database:
            if not query.pattern:
                database.execute(statement, values)
                return list(database.fetchall())
            with transaction.atomic():
                database.execute(f"SET LOCAL statement_timeout = {LONGEST_SEARCH}")
                database.execute(statement, values)
                rows: list[tuple[Any, ...]] = database.fetchall()
                database.execute("SET LOCAL statement_timeout = DEFAULT")
                return rows
    except DataError as error:
        first = str(error).partition("\n")[0]
        raise BadPattern(f"{first}. Correct the expression, or search by words.") from error
    except OperationalError as error:
        if not query.pattern:
            raise
        raise BadPattern("The search took too long. Use a simpler expression, or words.") from error


def _escaped(word: str) -> str:
    """Return a text without the wildcards of LIKE."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")

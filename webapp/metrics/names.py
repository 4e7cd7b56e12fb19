"""Names of the metrics of a run: search by the database, so that a page reads the names that it shows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DataError, OperationalError, connection, transaction

from webapp.metrics.models import Series
from webapp.runs.models import Run

LONGEST_SEARCH = 2000
"""Milliseconds that a search by a regular expression may take."""
_NAMES = """
SELECT key, section, rank FROM (
  SELECT key, section, COALESCE(array_position(%(order)s::text[], section), 1000) AS rank FROM (
    SELECT key, CASE WHEN strpos(key, '/') > 0 THEN split_part(key, '/', 1) ELSE 'other' END AS section
    FROM metrics_series WHERE run_id = %(run)s AND key ILIKE ALL (%(words)s::text[]) AND (%(pattern)s = '' OR key ~* %(pattern)s)
  ) AS named WHERE %(section)s = '' OR section = %(section)s
) AS ranked
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


def names_first(run: Run, most: int) -> list[str]:
    """Return the first names in their order."""
    return list(Series.objects.filter(run=run).order_by("key").values_list("key", flat=True)[:most])


def is_reported(run: Run, sections: Iterable[str]) -> bool:
    """Whether the run has a metric in one of these sections."""
    series = Series.objects.filter(run=run)
    return any(series.filter(key__startswith=f"{section}/").exists() for section in sections)


def names_list(run: Run, query: NameQuery, most: int, after: str = "") -> list[str]:
    """Return the first matching names, section by section, after the name `after`. Raises BadPattern."""
    position = "WHERE (rank, section, key) > (%(rank)s, %(of)s, %(after)s)" if after else ""
    section = after.partition("/")[0] if "/" in after else "other"
    rank = list(query.order).index(section) + 1 if section in query.order else 1000
    values: dict[str, Any] = {"rank": rank, "of": section, "after": after, "most": most}
    return [
        row[0]
        for row in _rows(
            run, query, f"{_NAMES} {position} ORDER BY rank, section, key LIMIT %(most)s", values
        )
    ]


def names_count(run: Run, query: NameQuery) -> list[tuple[str, int]]:
    """Return the sections and their numbers of matching names. Raises BadPattern."""
    statement = (
        f"SELECT section, count(*) FROM ({_NAMES}) AS listed GROUP BY rank, section ORDER BY rank, section"
    )
    return [(str(section), int(count)) for section, count in _rows(run, query, statement, {})]


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

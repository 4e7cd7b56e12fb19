"""Full-text search in prompts and responses: exact words (no stemming, no stop words: "up" is a move)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.contrib.postgres.search import SearchQuery
from django.db import connection
from django.db.models import Func, Q, TextField, Value

from webapp.runs.models import Run
from webapp.transcripts.models import Episode

MOST_CHARACTERS = 100_000
"""Maximum searchable characters of one episode; PostgreSQL stores at most a megabyte of words per row."""
MOST_TERMS = 20
RARE = 5000
"""Maximum number of matching episodes that are found by the word index alone."""
PROBED, FREQUENT = 2000, 60
"""Newest episodes of a run that are searched first, and the number of matches among them from which words are frequent."""
_HITS = """
WITH hits AS MATERIALIZED (SELECT id FROM transcripts_episode WHERE words @@ to_tsquery('simple', %s)) SELECT id FROM hits LIMIT %s
"""
_PIECE = re.compile(r"\w+")
_TERM = re.compile(r'(-?)"([^"]*)"?|(\S+)')


def searchable(facts: Iterable[str], document: Mapping[str, Any]) -> str:
    """Return the searchable text of an episode: its facts, executed responses, prompts, every other candidate."""
    parts = dict.fromkeys([*facts, *_said(document)])
    return " ".join(_PIECE.findall(" ".join(parts).casefold()))[:MOST_CHARACTERS]


def _said(document: Mapping[str, Any]) -> Iterator[str]:
    turns = document.get("turns", [])
    for turn in turns:
        if 0 <= turn["executed"] < len(turn["candidates"]):
            yield turn["candidates"][turn["executed"]]["text"]
    for turn in turns:
        yield from (str(text) for message in turn["messages"] for text in message.values())
    for turn in turns:
        yield from (candidate["text"] for candidate in turn["candidates"])


def run_word(run_id: str) -> str:
    """Return a word contained in all episodes of a run and in no response, so that one index finds a run's episodes."""
    return f"run\N{MIDDLE DOT}{run_id}".encode().hex()


def vector(run_id: str, text: str) -> Func:
    """Return the column's value of `searchable` text."""
    words = Value(f"{run_word(run_id)} {text}", output_field=TextField())
    return Func(Value("simple"), words, function="to_tsvector", template="%(function)s(%(expressions)s)")


def terms(asked: str) -> list[tuple[bool, list[str], bool]]:
    """Return the parsed query: (required or excluded, consecutive words, whether the last one is a prefix).

    `two words` both occur; `"two words"` are consecutive; `-word` does not occur; `wor*` is a prefix.
    """
    parsed = []
    for minus, phrase, single in _TERM.findall(asked):
        unwanted = bool(minus) or (single.startswith("-") and len(single) > 1)
        text = single.removeprefix("-") if unwanted and single else single or phrase
        if pieces := _PIECE.findall(text.casefold()):
            parsed.append((not unwanted, pieces, text.endswith("*")))
    return parsed[:MOST_TERMS]


def query(run_id: str, asked: str, *, phrases: bool = True) -> str:
    """Return the search query for a run's episodes with these words; without `phrases`, consecutive words may be anywhere."""
    parts = [f"'{run_word(run_id)}'"]
    for wanted, pieces, beginning in terms(asked):
        words = [f"'{piece}'" for piece in pieces]
        words[-1] += ":*" if beginning else ""
        if wanted or phrases or len(words) == 1:
            parts.append(("" if wanted else "!") + f"({(' <-> ' if phrases else ' & ').join(words)})")
    return " & ".join(parts)


def search_query(text: str) -> SearchQuery:
    """Return the condition's value for the text of a query."""
    return SearchQuery(text, config="simple", search_type="raw")


def pattern(asked: str) -> re.Pattern[str] | None:
    """Return a regular expression of the matches to highlight; None for an empty query."""
    wanted = [
        r"\W+".join(map(re.escape, pieces)) + (r"\w*" if beginning else "")
        for is_wanted, pieces, beginning in terms(asked)
        if is_wanted
    ]
    return re.compile(rf"\b(?:{'|'.join(wanted)})\b", re.IGNORECASE) if wanted else None


def words_fit(run: Run, asked: str, hits: list[int] | None) -> Q:
    """Return the condition that an episode has the words, whose `words_hits` are `hits`."""
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

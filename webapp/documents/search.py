"""Full-text search over the documentation's headings, paragraphs and tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from webapp.documents.rendering import START, Document, Passage, document_get, page_address, page_paths

MOST = 30
"""Number of results."""
AROUND = 90
"""Characters of an excerpt on either side of the first match."""
LONGEST = 200
"""Characters of a query; the rest is ignored."""
WEIGHTS = {"changes": 0.3, "contributing": 0.5, "maintaining": 0.5, "from-": 0.4, "configuration": 0.8}
"""Weights of pages that few readers search for, or in which every word occurs, by the beginning of the slug."""


@dataclass(frozen=True)
class Hit:
    """A heading or row that contains every word."""

    where: str
    """The page, and for a row the heading above it."""
    heading: str
    address: str
    excerpt: SafeString
    score: float


def documents() -> Iterator[Document]:
    """Return every page."""
    for slug in page_paths():
        if page := document_get(slug):
            yield page


def search(query: str) -> list[Hit]:
    """Return the passages with every word of the query, the best first: words in headings count most."""
    words = words_of(query)
    if not words:
        return []
    hits = [
        hit
        for page in documents()
        if page.slug != START
        for passage in page.passages
        if (hit := _hit(page, passage, words))
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.address))
    unique = {
        (hit.heading, hit.excerpt): hit for hit in reversed(hits)
    }  # sections of several types have equal rows
    return sorted(unique.values(), key=lambda hit: (-hit.score, hit.address))[:MOST]


def words_of(query: str) -> list[str]:
    """Return the words of a query in lower case, without repetition."""
    return list(dict.fromkeys(re.findall(r"[\w./]*\w", query.lower()[:LONGEST])))


def _hit(page: Document, passage: Passage, words: list[str]) -> Hit | None:
    score = 0.0
    heading, title, text = passage.heading.lower(), page.title.lower(), passage.text.lower()
    for word in words:
        weight = _weight(word, heading, 8.0) + _weight(word, title, 2.0) + min(text.count(word), 5)
        if not weight:
            return None
        score += weight
    if not any(word in heading or word in text for word in words):
        return None
    address = page_address(page.slug) + (f"#{passage.anchor}" if passage.anchor else "")
    score *= next((weight for start, weight in WEIGHTS.items() if page.slug.startswith(start)), 1.0)
    where = f"{page.title}: {passage.within}" if passage.within else page.title
    return Hit(where, passage.heading, address, _excerpt(passage.text, words), score)


def _weight(word: str, text: str, weight: float) -> float:
    """Return the weight for a whole word, half of it for a part of one."""
    if word not in text:
        return 0.0
    return weight if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) else weight / 2


def _excerpt(text: str, words: list[str]) -> SafeString:
    """Return the text around the first match, with all words marked."""
    text = " ".join(text.split())
    pattern = re.compile("|".join(re.escape(word) for word in words), re.IGNORECASE)
    match = pattern.search(text)
    start = max(0, match.start() - AROUND) if match else 0
    end = min(len(text), (match.end() if match else AROUND) + AROUND)
    if start:
        start = text.find(" ", start) + 1
    if end < len(text):
        end = max(text.rfind(" ", start, end), start)
    pieces = re.split(f"({pattern.pattern})", text[start:end], flags=re.IGNORECASE)
    marked = ((format_html("<mark>{}</mark>", piece) if n % 2 else piece,) for n, piece in enumerate(pieces))
    body = format_html_join("", "{}", marked)
    return format_html("{}{}{}", "… " if start else "", body, " …" if end < len(text) else "")

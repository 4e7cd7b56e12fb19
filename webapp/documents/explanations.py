"""Explanations of metrics, health rules, config fields and columns for the "?" buttons: rows of tables in the documentation."""

import re
from dataclasses import dataclass

from django.utils.safestring import SafeString

from webapp.documents.pages import page_address
from webapp.documents.rendering import Passage, document_get

PAGES = {"metric": "metrics", "rule": "health", "field": "configuration", "column": "columns"}
"""What can be explained -> the page whose tables have a row for it."""
BY_ANCHOR = ("field", "column")
"""Kinds whose names are anchors of rows (HEADING--NAME): the same field or column is in several tables."""


@dataclass(frozen=True)
class Explanation:
    """A row of a table: its first cell is the name, the others are its explanation."""

    cells: tuple[SafeString, ...]
    address: str


def explanation(kind: str, name: str) -> Explanation | None:
    """Return the row for a name of this kind; None if there is none. `<role>` and the like in a row's name stand for any word."""
    page = document_get(PAGES[kind])
    rows = [] if page is None else [row for row in page.passages if row.cells]
    for row in rows:
        if kind in BY_ANCHOR and row.anchor == name:
            return Explanation(row.cells, f"{page_address(PAGES[kind])}#{row.anchor}")
        if kind not in BY_ANCHOR and any(_pattern(known).fullmatch(name) for known in _names(row)):
            return Explanation(row.cells, f"{page_address(PAGES[kind])}#{row.anchor}")
    return None


def explanations(kind: str, names: list[str]) -> list[Explanation]:
    """Return the rows for all names, each once."""
    rows = (explanation(kind, name) for name in names)
    return list(dict.fromkeys(row for row in rows if row))


def _names(row: Passage) -> list[str]:
    return row.heading.split(", ")


def _pattern(name: str) -> re.Pattern[str]:
    words = re.split(r"<\w+>", name)
    return re.compile("[^/]+".join(re.escape(word) for word in words))

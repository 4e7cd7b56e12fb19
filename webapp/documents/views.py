"""The documentation's pages, their search and images, and the texts of "?" buttons.

The text of a "?" button explains a metric, a health rule, a config field or a column. It is a row of a table in the documentation.
"""

import re
from dataclasses import dataclass

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from webapp.documents.rendering import (
    IMAGES,
    ORIGIN,
    START,
    Passage,
    document_get,
    image_path,
    page_address,
    page_paths,
)
from webapp.documents.search import search

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


MOST_NAMES = 40
"""Metrics of one "?" button."""


@require_safe
def page(request: HttpRequest, slug: str = START) -> HttpResponse:
    """Show a page, or with ?q= the passages that contain all its words."""
    document = document_get(slug)
    if document is None:
        raise Http404(f"the documentation has no page {slug!r}")
    query = request.GET.get("q", "").strip()
    context = {
        "place": "docs",
        "document": document,
        "html": SafeString(document.html.replace(ORIGIN, escape(_origin(request)))),
        "pages": [(page_address(key), _title(key), key == slug) for key in page_paths()],
        "start": START,
        "query": query,
        "hits": search(query) if query else [],
    }
    return render(request, "documents/search.html" if query else "documents/page.html", context)


def _title(slug: str) -> str:
    document = document_get(slug)
    return document.title if document else slug


def _origin(request: HttpRequest) -> str:
    """The address by which the browser reaches this server."""
    return request.build_absolute_uri("/").rstrip("/") or settings.TROUPE_PUBLIC_URL


@require_safe
@cache_control(private=True, max_age=3600)
def image(request: HttpRequest, name: str) -> HttpResponse:
    """An image of a page."""
    path = image_path(name)
    if path is None:
        raise Http404(f"the documentation has no image {name!r}")
    return HttpResponse(path.read_bytes(), content_type=IMAGES[path.suffix])


@require_safe
def explain(request: HttpRequest, kind: str) -> HttpResponse:
    """The text of a "?" button: rows of the documentation's tables for each ?name=."""
    if kind not in PAGES:
        raise Http404(f"{kind!r} is not explained; {' and '.join(PAGES)} are")
    names = request.GET.getlist("name")[:MOST_NAMES]
    context = {"rows": explanations(kind, names), "names": names, "page": page_address(PAGES[kind])}
    return render(request, f"documents/_{kind}.html", context)

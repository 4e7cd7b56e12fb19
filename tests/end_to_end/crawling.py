"""Walks over all pages that links lead to, one of each kind, and looks for what no page may have."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from django.urls import Resolver404, URLPattern, get_resolver, resolve
from playwright.sync_api import Page

from tests.end_to_end.layouts import layout_faults
from tests.end_to_end.looks import spoken_faults, violations

WIDTHS = (1440, 720, 390)
"""A desktop window, the same at a zoom of 200 %, and a telephone."""
SCHEMES = ("light", "dark")
NO_PAGES = {
    "artifacts:file", "artifacts:image", "compare:csv", "transcripts:table-export", "transcripts:curve-csv", "jobs:fragment",
    "reports:export", "transcripts:export", "healthz", "readyz", "metrics", "home", "sweeps", "accounts:link", "accounts:login",
    "shares:open", "documents:image", "documents:explain",
}  # fmt: skip
"""Parts of pages, files, answers for machines; and pages of people who are not logged in, which have tests of their own."""


class Crawl:
    """One visit to every kind of page; `faults` lists what was found, `seen` has an address per kind."""

    def __init__(self, page: Page, schemes: Sequence[str] = SCHEMES, *, axe: bool = True) -> None:
        self.page = page
        self.schemes = schemes
        self.axe = axe
        self.seen: dict[str, str] = {}
        self.faults: list[str] = []

    def walk(self, start: str) -> "Crawl":
        """From an address through all links of this site, each kind of page once."""
        waiting = [start]
        while waiting:
            address = waiting.pop(0)
            kind = kind_of(address)
            if kind is None or kind in self.seen or kind in NO_PAGES:
                continue
            self.seen[kind] = address
            answer = self.page.goto(address)
            if answer is None or answer.status != 200:
                self.faults.append(f"{address} answers {answer.status if answer else 'nothing'}")
                continue
            self._look(kind, address)
            waiting += self.page.eval_on_selector_all(
                "a[href]:not([download])", "all => all.map(a => a.href)"
            )
        return self

    def _look(self, kind: str, address: str) -> None:
        self.page.wait_for_load_state("networkidle")
        for scheme in self.schemes:
            self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            for width in WIDTHS:
                self.page.set_viewport_size({"width": width, "height": 900})
                wide = self.page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    self.faults.append(f"{address} is {wide} px wide at {width}")
                self._keep(f"{kind}-{scheme}-{width}")
            if self.axe:
                self.faults += [f"{address} ({scheme}): {fault}" for fault in violations(self.page)]
        if self.axe:
            self.faults += [f"{address}: {fault}" for fault in spoken_faults(self.page)]
        self.page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        self.faults += [f"{address}: {fault}" for fault in layout_faults(self.page)]

    def _keep(self, name: str) -> None:
        """A picture, where TROUPE_SHOTS names a folder for them."""
        if folder := os.environ.get("TROUPE_SHOTS"):
            self.page.wait_for_timeout(300)
            self.page.screenshot(path=Path(folder) / f"{name.replace(':', '.')}.png", full_page=True)


def kind_of(address: str) -> str | None:
    """The name of the page at an address; None for what is no page of ours."""
    parts = urlsplit(address)
    if parts.hostname not in (None, "127.0.0.1", "localhost") or parts.path.startswith(("/api/", "/static/")):
        return None
    try:
        return resolve(parts.path).view_name
    except Resolver404:
        return None


def page_kinds() -> set[str]:
    """Names of all pages that the site has; the API, MLflow's protocol and admin are left out."""
    return {
        name for name in _names(get_resolver().url_patterns, "") if not re.match(r"(api|mlflow|admin):", name)
    }


def _names(patterns: list[object], before: str) -> Iterator[str]:
    for each in patterns:
        if isinstance(each, URLPattern):
            yield f"{before}{each.name}"
        else:
            space = getattr(each, "namespace", None)
            yield from _names(each.url_patterns, f"{before}{space}:" if space else before)  # type: ignore[attr-defined]

"""What tests in a browser ask of every page: pictures to look at, and no serious barriers."""

import os
from collections.abc import Iterable
from itertools import product

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def shoot(page: Page, name: str) -> None:
    """A picture, where TROUPE_SHOTS names a folder for it."""
    if folder := os.environ.get("TROUPE_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=False)


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """Serious and critical violations that axe finds: (rule, the first elements)."""
    found = Axe().run(page).response["violations"]
    return [
        (each["id"], [node["html"] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def look_at(page: Page, prefix: str, pages: Iterable[tuple[str, str]]) -> None:
    """Pages (name, address), wide and narrow, light and dark: they fit, axe finds nothing serious, pictures where wanted."""
    for (name, where), width in product(pages, (1440, 390)):
        page.set_viewport_size({"width": width, "height": 900 if width > 1000 else 844})
        page.goto(where)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, where
        for colours in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
            shoot(page, f"{prefix}-{name}-{width}-{colours}")
            found = violations(page)
            assert not found, found

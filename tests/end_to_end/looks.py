"""What tests in a browser ask of every page: pictures to look at, and no serious barriers."""

import os

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

"""What tests in a browser ask of every page: pictures to look at, and no serious barriers."""

import os
from collections.abc import Iterable
from itertools import product
from typing import Any

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


def fits(page: Page) -> None:
    """No serious violation, and no scrolling sideways on a telephone."""
    assert not (found := violations(page)), found
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 900})


FIRST_CHANGE = """
(element) => void (window.changed = new Promise((resolve) =>
  new MutationObserver(() => resolve(element.textContent)).observe(element, { childList: true })))
"""
"""Makes `window.changed` a promise of the element's next text, which may stay for a moment only."""
VIEWS = ((1440, "light"), (390, "dark"))
"""Widths in pixels and colour schemes: both layouts and both palettes in two views."""


def look_at(page: Page, prefix: str, pages: Iterable[tuple[str, str]]) -> None:
    """Check pages (name, address) in each view: nothing is wider than the screen, and axe finds nothing serious.

    Screenshots of all combinations are stored if TROUPE_SHOTS names a folder.
    """
    for name, address in pages:
        page.goto(address)
        page.wait_for_load_state("networkidle")
        for width, scheme in product((1440, 390), ("light", "dark")):
            checked = (width, scheme) in VIEWS
            if not checked and "TROUPE_SHOTS" not in os.environ:
                continue
            page.set_viewport_size({"width": width, "height": 900 if width > 1000 else 844})
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            shoot(page, f"{prefix}-{name}-{width}-{scheme}")
            if checked:
                page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
                found = violations(page)
                assert not found, found


CONTROLS = {
    "button", "checkbox", "combobox", "link", "listbox", "menuitem", "radio", "searchbox", "slider", "spinbutton", "switch", "tab",
    "textbox",
}  # fmt: skip


def accessibility_tree(page: Page) -> list[dict[str, Any]]:
    """Nodes of Chromium's accessibility tree that assistive technology reads."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [node for node in nodes if not node.get("ignored")]


def live_regions(page: Page) -> list[tuple[str, str, str, str]]:
    """Roots of live regions as (role, "polite", "assertive" or "off", accessible name, text)."""
    nodes = accessibility_tree(page)
    by_id = {node["nodeId"]: node for node in nodes}

    def text(node: dict[str, Any]) -> str:
        if node["role"]["value"] == "StaticText":
            return str(node["name"]["value"])
        return " ".join(
            filter(None, (text(by_id[each]) for each in node.get("childIds", ()) if each in by_id))
        )

    regions = []
    for node in nodes:
        live = {prop["name"]: prop["value"].get("value") for prop in node.get("properties", [])}.get("live")
        role, name = str(node["role"]["value"]), str(node.get("name", {}).get("value", ""))
        if live is not None or role in ("status", "alert", "log"):
            regions.append((role, str(live or "off"), name, text(node)))
    return regions


def spoken_faults(page: Page) -> list[str]:
    """What a screen reader would miss in Chromium's accessibility tree: names of controls, one main region, one title."""
    spoken = accessibility_tree(page)

    def role(node: dict[str, Any]) -> str:
        return str(node.get("role", {}).get("value", ""))

    faults = [
        f"a {role(node)} without a name"
        for node in spoken
        if role(node) in CONTROLS and not str(node.get("name", {}).get("value", "")).strip()
    ]
    levels = [
        prop["value"]["value"]
        for node in spoken
        if role(node) == "heading"
        for prop in node.get("properties", [])
        if prop["name"] == "level"
    ]
    if levels.count(1) != 1:
        faults.append(f"{levels.count(1)} titles (headings of level 1)")
    if sum(role(node) == "main" for node in spoken) != 1:
        faults.append("not exactly one main region")
    return faults

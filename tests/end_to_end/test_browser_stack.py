"""The whole of it, as a person meets it: the link, the form, the launch, the curve that moves, a transcript."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.crawling import Crawl
from tests.end_to_end.running_stack import RunningStack

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(1800)]
PATIENCE = 400_000
OF_A_RUN = {
    "runs:list", "runs:detail", "runs:curves", "runs:chart", "runs:checkpoints", "runs:logs", "runs:config", "health:page",
    "timeline:page", "transcripts:list", "transcripts:detail", "transcripts:tree", "transcripts:probes", "transcripts:diff",
    "cluster:page", "compare:page", "experiments:new", "jobs:list", "reports:list",
}  # fmt: skip


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    """A stack that nothing else uses."""
    running = RunningStack()
    try:
        yield running.start()
    finally:
        running.remove()


def login_link(stack: RunningStack) -> str:
    """The link that `up` prints."""
    found = re.search(r"https?://\S+/account/link/\S+", stack.said)
    assert found, stack.said
    return found[0]


def keep(page: object, name: str) -> None:
    """A picture of the page where TROUPE_SHOTS says so."""
    if folder := os.environ.get("TROUPE_SHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")  # type: ignore[attr-defined]


@pytest.mark.extended
def test_a_person_launches_watches_reads_and_stops(stack: RunningStack, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(login_link(stack))
    page.goto(f"{stack.url}/runs/")
    expect(page.locator("main")).to_contain_text("No runs yet")
    keep(page, "first")

    page.get_by_role("link", name="Set up plan_path_duo").click()
    page.get_by_label("iterations", exact=True).fill("400")
    page.get_by_label("name", exact=True).fill("from the browser")
    expect(page.locator("#preview")).to_contain_text("with 1 change")
    page.get_by_role("button", name="Launch").click()
    expect(page.locator("h1")).to_have_text("from the browser")
    state = page.locator(".run-head .state")
    expect(state).to_have_text("running", timeout=PATIENCE)
    expect(page.locator('[data-figure="train/return"] .value')).not_to_have_text("–", timeout=PATIENCE)
    line = "[...document.querySelectorAll('#chart-reward path.js-line')].at(-1)?.getAttribute('d')"
    page.wait_for_function(f"() => {line}", timeout=PATIENCE)
    before = page.evaluate(line)
    page.wait_for_function(f"before => {line} !== before", arg=before, timeout=PATIENCE)
    expect(page.locator("[data-not-evaluated]")).to_have_count(0, timeout=PATIENCE)
    page.wait_for_function(
        "() => document.querySelector('.run-progress progress').value >= 12", timeout=PATIENCE
    )
    keep(page, "running")

    page.locator(".episodes a.row-link").first.click()
    expect(page.locator("#turn-1 .said")).to_be_visible()
    expect(page.locator("[data-board-drawing] svg")).to_be_visible()
    keep(page, "transcript")

    page.get_by_role("button", name="Stop", exact=True).click()
    expect(state).to_have_text(re.compile("stopped"), timeout=PATIENCE)
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("link", name=re.compile("Checkpoints")).click()
    expect(page.locator("[data-checkpoints] tbody tr")).not_to_have_count(0, timeout=PATIENCE)
    keep(page, "stopped")

    crawl = Crawl(page, ["light"], axe=False).walk(f"{stack.url}/runs/")
    assert not crawl.faults, "\n".join(crawl.faults)
    assert not OF_A_RUN - set(crawl.seen), "pages of a real run"
    context.close()
    assert not complaints, complaints

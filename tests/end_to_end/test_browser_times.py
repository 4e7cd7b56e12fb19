"""Times are shown in the zone of the browser; lines of text are short enough to read."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.end_to_end.conftest import Server, run_told, signed_in
from tests.end_to_end.seed import START
from webapp.accounts.models import User
from webapp.reports.services import report_create
from webapp.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LONGEST_LINES = """() => [...document.querySelectorAll("main p")].filter((each) => each.checkVisibility()
    && each.textContent.trim().length > 80 && !each.matches(".said, .saw, .saw p, .words, .acts, .pages")).map((each) => {
  const lines = new Map(), range = document.createRange(), walker = document.createTreeWalker(each, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) for (let place = 0; place < walker.currentNode.length; place += 1) {
    range.setStart(walker.currentNode, place);
    range.setEnd(walker.currentNode, place + 1);
    const { bottom, width } = range.getBoundingClientRect(), line = Math.round(bottom / 8);
    if (width) lines.set(line, (lines.get(line) ?? 0) + 1);
  }
  return [Math.max(...lines.values()), each.textContent.trim().slice(0, 60)];
}).filter(([most]) => most > 80)"""


@pytest.fixture
def run(ada: User) -> Run:
    """A run whose first evaluation is at a known time."""
    made, _ = run_told(ada, iterations=22)
    Run.objects.filter(pk=made.pk).update(reason="The server was restarted at 2026-03-01 12:05 UTC.")
    return made


def test_times_are_in_the_zone_of_the_browser(
    browser: Browser, context: BrowserContext, server: Server, run: Run
) -> None:
    page = signed_in(browser, context, server, timezone_id="Asia/Tokyo")
    page.goto(f"/runs/{run.pk}/?x=time")
    written = page.locator("td[data-label=written] time").first
    expect(written).to_have_attribute("title", "2025-10-09 17:53:50 UTC+09:00 (Asia/Tokyo)")
    expect(page.locator("[data-reason] time")).to_have_text("2026-03-01 21:05")
    page.wait_for_function("() => document.querySelector('#chart-return .plot').data")
    first = page.evaluate("document.querySelector('#chart-return .plot').data[0].x[0]")
    assert START < first / 1000 - 9 * 3600 < START + 10, datetime.fromtimestamp(first / 1000, UTC)
    page.context.close()
    page = signed_in(browser, context, server, java_script_enabled=False)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-reason] time")).to_have_text("2026-03-01 12:05 UTC")
    expect(page.locator("td[data-label=written] time").first).to_have_attribute(
        "title", "2025-10-09 08:53:50 UTC"
    )
    page.context.close()


@pytest.mark.extended
def test_lines_of_text_have_at_most_eighty_characters(page: Page, ada: User, run: Run) -> None:
    words = "A report explains in several sentences which question the comparison answers and what follows from it. "
    report = report_create(ada, run.project, "Long", words * 4 + "\n\n* " + words * 3 + "\n\n> " + words * 3)
    page.set_viewport_size({"width": 1600, "height": 900})
    wide: dict[str, list[list[object]]] = {}
    for address in (
        "/docs/", "/docs/troubleshooting/", f"/reports/{report.pk}/", "/experiments/new/", f"/runs/{run.pk}/", f"/runs/{run.pk}/health/",
        "/runs/?filter=state+%3D+failed", "/jobs/",
    ):  # fmt: skip
        page.goto(address)
        page.wait_for_load_state("networkidle")
        wide[address] = page.evaluate(LONGEST_LINES)
    assert not any(wide.values()), wide

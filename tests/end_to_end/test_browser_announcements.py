"""Changes that a page makes by itself, as a screen reader gets them: announced once, in sentences, and never as a stream."""

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.announcements import announced, heard, listen, wait_for
from tests.end_to_end.conftest import run_told, tell
from tests.end_to_end.looks import FIRST_CHANGE, live_regions
from tests.end_to_end.seed import Story
from webapp.accounts.models import Project, User
from webapp.reports.services import report_create
from webapp.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def telling(ada: User) -> tuple[Run, Story]:
    """A run that has started."""
    run, story = run_told(ada, "live", "running")
    return run, story


def test_a_busy_run_is_announced_in_few_sentences(page: Page, telling: tuple[Run, Story]) -> None:
    run, story = telling
    listen(page)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    assert heard(page) == [("status", "polite", "")], "one region, empty"
    announced(page)
    for iteration in range(10):
        tell(run, story.iterations(iteration, iteration + 1))
        expect(page.locator("[data-iteration]")).to_have_text(f"iteration {iteration + 1} of 120")
    assert announced(page) == []
    tell(run, story.iterations(10, 30))
    wait_for(page, "status", "iteration 30 of 120")
    assert len(announced(page)) == 1
    tell(run, story.failing(30, "The disk is full.", "Delete checkpoints.", "Traceback"))
    wait_for(page, "alert", "Run state: failed")
    assert ("alert", "assertive", "Run state: failed. The disk is full. Delete checkpoints.") in heard(page)
    assert len(announced(page)) <= 2


@pytest.mark.extended
def test_a_log_is_a_log_and_only_errors_interrupt(page: Page, telling: tuple[Run, Story]) -> None:
    run, story = telling
    listen(page)
    page.goto(f"/runs/{run.pk}/logs/")
    expect(page.locator("[data-link]")).to_have_text("live")
    assert ("log", "off", "Log") in [region[:3] for region in live_regions(page)]
    announced(page)
    lines = [("info", f"evaluation {number}") for number in range(10)] + [("error", "the worker ended")]
    for level, message in lines:
        tell(run, [story.event("log", level=level, source="driver", message=message)])
    wait_for(page, "status", "Error in the log, from driver: the worker ended.")
    assert len(announced(page)) == 1


@pytest.mark.extended
def test_a_form_and_an_editor_announce_what_changed(page: Page, ada: User) -> None:
    listen(page)
    page.goto("/experiments/new/?preset=plan_path_duo")
    iterations = page.get_by_label("iterations", exact=True)
    iterations.fill("many")
    wait_for(page, "status", "1 error to fix")
    iterations.fill("50")
    wait_for(page, "status", "Ready to launch, with 1 change from plan_path_duo")
    page.goto("/account/projects/lab/quotas/")
    page.get_by_role("button", name="Save").click()
    wait_for(page, "status", "The quotas are saved.")
    report = report_create(ada, Project.objects.get(slug="lab"), "Notes", "one")
    page.goto(f"/reports/{report.pk}/edit/")
    saved, text = page.locator("[data-saved]"), page.get_by_role("textbox", name="Text")
    announced(page)
    for word in ("two", "three", "four"):
        saved.evaluate(FIRST_CHANGE)
        with page.expect_response(lambda answer: answer.request.method == "PUT"):
            text.press_sequentially(f" {word}")
        assert page.evaluate("window.changed") == "not saved yet"
        expect(saved).to_contain_text("saved, version")
    wait_for(page, "status", "saved, version")
    assert len(announced(page)) == 1, "the first save, not each"


MOVING = """
() => {
  const seconds = (text) => Math.max(...text.split(",").map((part) => parseFloat(part) * (part.trim().endsWith("ms") ? 0.001 : 1)));
  const faults = [];
  for (const element of document.querySelectorAll("*")) {
    for (const pseudo of [null, "::before", "::after"]) {
      const style = getComputedStyle(element, pseudo);
      const animated = style.animationName !== "none" ? seconds(style.animationDuration) : 0;
      const moved = Math.max(animated, seconds(style.transitionDuration), seconds(style.transitionDelay));
      if (moved <= 0.01 && style.scrollBehavior !== "smooth") continue;
      faults.push(`${element.tagName}.${element.className}${pseudo ?? ""}: ${moved} s`);
    }
  }
  return faults;
}
"""


@pytest.mark.extended
def test_nothing_moves_if_less_motion_is_preferred(page: Page, telling: tuple[Run, Story]) -> None:
    run, _ = telling
    for address in (f"/runs/{run.pk}/", "/experiments/new/?preset=plan_path_duo"):
        page.emulate_media(reduced_motion="reduce")
        page.goto(address)
        assert page.evaluate(MOVING) == []
    page.goto(f"/runs/{run.pk}/")
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(MOVING), "the state of a running run pulsates otherwise"

"""Input before the scripts of a page are loaded has the same effect as later input."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from playwright.sync_api import Page, Route, expect

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.seed import Story
from tests.end_to_end.test_browser_provenance import artifact_make
from webapp.accounts.models import Project, User
from webapp.reports.models import Report
from webapp.reports.services import report_create

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SCRIPTS = re.compile(r"/static/(?!js/head)[^?]*\.js$")
"""All but the one that the browser waits for before it shows the page."""


@contextmanager
def early(page: Page, address: str) -> Iterator[None]:
    """Open a page; its scripts are loaded when the block has ended."""
    held: list[Route] = []
    ended = Event()

    def hold(route: Route) -> None:
        if ended.is_set():
            route.continue_()
        else:
            held.append(route)

    page.route(SCRIPTS, hold)
    page.goto(address, wait_until="commit")
    yield
    assert held
    ended.set()
    for route in held:
        route.continue_()


def test_values_of_a_form_are_checked(page: Page, ada: User) -> None:
    with early(page, "/experiments/new/"):
        page.get_by_label("group size").fill("4")
    expect(page.locator("#preview")).to_contain_text("48 tasks × 4 candidates")


@pytest.mark.extended
def test_an_algorithm_that_is_chosen_has_its_fields(page: Page, ada: User) -> None:
    with early(page, "/experiments/new/"):
        page.locator("[data-field='algorithm.type'] select").select_option("dapo")
    expect(page.locator("[data-field='algorithm.clip_high'] input")).to_have_value("0.28")


@pytest.mark.extended
def test_words_find_presets_and_fields(page: Page, ada: User) -> None:
    with early(page, "/experiments/new/"):
        page.get_by_label("Find a preset").fill("memory gru")
        page.get_by_label("Find a field").fill("max_turns")
    gallery = page.get_by_role("region", name="Preset", exact=True)
    expect(gallery.get_by_role("link")).to_have_count(2)
    expect(page).to_have_url(re.compile(r"[?&]find=memory\+gru"))
    expect(page.locator("[data-field='rollout.group_size']")).to_be_hidden()


@pytest.mark.extended
def test_a_reports_text_is_saved(page: Page, ada: User) -> None:
    report = report_create(ada, Project.objects.get(slug="lab"), "Group size", "Groups of four.")
    with early(page, f"/reports/{report.pk}/edit/"):
        page.get_by_label("Text, in Markdown").fill("Groups of eight.")
    expect(page.get_by_text("saved, version 2")).to_be_visible()
    assert Report.objects.get().text == "Groups of eight."


@pytest.mark.extended
@pytest.mark.parametrize("metrics", [20, 1010])
def test_words_find_charts(page: Page, ada: User, metrics: int) -> None:
    run = run_make(ada)
    story = Story(run.pk)
    names = [f"net/unit_{number}" for number in range(metrics)]
    parts = [dict.fromkeys(names[first : first + 1000], 1.0) for first in range(0, metrics, 1000)]
    tell(run, [*story.opening(), *(story.event("metrics", step=1, values=part) for part in parts)])
    with early(page, f"/runs/{run.pk}/curves/?q=unit_1"):
        page.get_by_label("Search charts").fill(f"unit_{metrics - 1}")
    expect(page.locator(".chart:not(.board-panel):visible h3")).to_have_text([f"unit {metrics - 1}"])
    expect(page).to_have_url(re.compile(rf"\?q=unit_{metrics - 1}$"))


@pytest.mark.extended
def test_selected_runs_are_counted(page: Page, ada: User) -> None:
    run_make(ada, "one")
    with early(page, "/runs/"):
        page.get_by_label("Select one").check()
    expect(page.get_by_text("1 run selected")).to_be_visible()


@pytest.mark.extended
def test_a_filter_that_is_chosen_is_applied(page: Page, ada: User) -> None:
    run_make(ada, "one", "failed")
    run_make(ada, "two", "queued")
    with early(page, "/runs/"):
        page.get_by_label("State").select_option("failed")
        expect(page).to_have_url(re.compile("state=failed"))
    expect(page.locator("tr[data-run]")).to_have_count(1)


@pytest.mark.extended
def test_a_question_is_asked_before_something_is_deleted(page: Page, ada: User) -> None:
    artifact = artifact_make(run_make(ada))
    questions: list[str] = []
    page.on("dialog", lambda dialog: (questions.append(dialog.message), dialog.dismiss()))
    with early(page, f"/artifacts/{artifact.pk}/"):
        page.get_by_role("button", name="Delete v1").click()
    assert questions == ["Delete the contents of v1?"] and not artifact.versions.filter(removed=True)

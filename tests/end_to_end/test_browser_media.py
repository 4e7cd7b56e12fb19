"""The media page: the slider, heat maps, sort and filter of tables, values that arrive."""

import time

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.seed import Story
from webapp.accounts.models import User

pytestmark = [pytest.mark.browser, pytest.mark.extended, pytest.mark.django_db(transaction=True)]


def test_a_step_is_chosen_a_table_sorted_and_new_values_arrive(page: Page, ada: User) -> None:
    run = run_make(ada)
    story = Story(run.pk, start=time.time() - 30)
    for step in (1, 20):
        tell(run, story.media(step))
    page.goto(f"/runs/{run.pk}/media/")
    answers = page.get_by_role("region", name="answers", exact=True).first
    answers.get_by_role("button", name="answer").click()
    answers.get_by_role("button", name="answer").click()
    expect(answers.locator("tbody tr").first).to_contain_text("29 + 1?")
    answers.get_by_role("searchbox").fill("7 + 1")
    expect(answers.locator("[data-media-rows]")).to_contain_text("of 30 rows")
    page.get_by_role("slider", name="Step").press("ArrowLeft")
    expect(page).to_have_url(f"/runs/{run.pk}/media/?step=1")
    note = page.get_by_role("region", name="note", exact=True)
    expect(note).to_contain_text("Said at 1:")
    expect(answers.locator("[data-media-rows]")).to_contain_text("of 30 rows")  # the filter stays
    page.get_by_role("slider", name="Step").press("ArrowRight")
    expect(note).to_contain_text("Said at 20:")
    tell(run, story.media(21))
    expect(note).to_contain_text("Said at 21:")
    expect(page.locator(".heat-map .last")).to_contain_text("step 21")
    page.get_by_role("img", name="Histograms of weights").press("ArrowLeft")
    expect(page.locator(".heat-map [role=status]")).to_contain_text("step 21:")
    assert not page.evaluate("window.hacked"), "a text is never markup"

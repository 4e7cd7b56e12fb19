"""The runs table in a browser: the filter and its suggestions."""

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make
from webapp.accounts.models import User
from webapp.metrics.models import Series

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_filter_is_written_with_the_keyboard_and_stays_in_the_address(page: Page, ada: User) -> None:
    good, other = run_make(ada, "good"), run_make(ada, "other")
    Series.objects.create(run=good, key="eval/success", last_value=0.9)
    Series.objects.create(run=other, key="eval/success", last_value=0.2)
    page.goto("/runs/")
    field = page.get_by_role("combobox", name="Filter")
    field.press_sequentially("eval/suc")
    expect(page.locator("#filter-options li")).to_have_text(["eval/successmetric"])
    field.press("Tab")
    expect(field).to_have_value("eval/success ")
    field.press_sequentially("> 0.5 and state = fin")
    page.locator("#filter-options li", has_text="finished").click()
    expect(field).to_have_value("eval/success > 0.5 and state = finished ")
    field.press("Escape")
    field.fill("eval/success > 0.5")
    field.press("Escape")
    field.press("Enter")
    expect(page.locator("tr[data-run]")).to_have_count(1)
    expect(page.get_by_role("link", name="good")).to_be_visible()
    assert "filter=eval%2Fsuccess+%3E+0.5" in page.url
    page.reload()
    expect(page.locator("tr[data-run]")).to_have_count(1)


def test_what_is_not_understood_is_said_at_the_field(page: Page, ada: User) -> None:
    run_make(ada, "one")
    page.goto("/runs/?filter=state+%3D")
    expect(page.get_by_role("alert")).to_contain_text("ends too early")
    expect(page.get_by_role("combobox", name="Filter")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("combobox", name="Filter")).to_have_value("state =")

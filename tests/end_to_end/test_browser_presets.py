"""The preset gallery in a real browser: groups, words that are looked for, the keyboard, the address."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.looks import look_at
from webapp.accounts.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_presets_are_found_by_keyboard_and_the_address_keeps_the_words(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    gallery = page.get_by_role("region", name="Preset", exact=True)
    own, others = (
        gallery.get_by_role("link", name="plan_path_duo Two agents"),
        gallery.get_by_role("link", name="spread_toy Five"),
    )
    expect(own).to_be_visible()
    expect(others).to_be_hidden()  # folded away: the chosen preset is of another task
    page.keyboard.press("/")
    search = page.get_by_label("Find a preset")
    expect(search).to_be_focused()
    page.keyboard.type("memory gru")
    expect(gallery.get_by_role("link")).to_have_count(2)
    expect(gallery.get_by_role("status")).to_have_text("2 found")
    expect(page).to_have_url(re.compile(r"[?&]find=memory\+gru"))
    search.fill("memory sudoku")
    expect(gallery.get_by_text("No preset matches.")).to_be_visible()
    search.fill("")
    expect(own).to_be_visible()
    expect(others).to_be_hidden()  # as it was before
    expect(page).to_have_url(re.compile(r"/experiments/new/$"))
    search.fill("toys")
    expect(gallery.get_by_role("link")).to_have_count(3)
    search.press("Enter")
    expect(page).to_have_url(re.compile(r"preset=spread_toy&find=toys"))
    expect(others).to_have_attribute("aria-current", "true")
    expect(gallery.get_by_role("link")).to_have_count(3)
    page.locator("[data-field='run.seed'] input").fill("3")
    expect(page).to_have_url(re.compile(r"run\.seed=3"))
    expect(page).to_have_url(re.compile(r"find=toys"))


@pytest.mark.extended
def test_it_can_be_looked_at(page: Page, ada: User) -> None:
    look_at(page, "presets", (("all", "/experiments/new/"), ("found", "/experiments/new/?find=memory+gru")))

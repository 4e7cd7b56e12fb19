"""The tree of an episode and its groups, in a browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_told
from webapp.accounts.models import User
from webapp.transcripts.models import Episode

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def episode(ada: User) -> Episode:
    """A training episode of at least four answers with eight candidates each."""
    run, _ = run_told(ada, state="running", iterations=3, ago=300, whole=6)
    return Episode.objects.filter(kind="train", failed=False, turn_count__gte=2).latest("pk")


def test_the_tree_is_walked_by_keyboard_and_the_address_follows(page: Page, episode: Episode) -> None:
    page.goto(f"/runs/{episode.run_id}/episodes/{episode.pk}/")
    page.get_by_role("link", name="tree", exact=True).click()
    page.wait_for_url("**/tree/")  # until its script listens
    chosen = page.locator(".tree .node[aria-current]")
    expect(chosen).to_have_count(1)
    expect(chosen).to_have_class(re.compile("executed"))
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(r"\?turn=2&candidate=\d$"))
    expect(page.locator("#group-title")).to_contain_text("#2")
    expect(chosen).to_have_class(re.compile("executed"))
    expect(chosen).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#group-title")).to_contain_text("#1")
    page.goto(f"/runs/{episode.run_id}/episodes/{episode.pk}/tree/?turn=3&candidate=4")
    expect(page.locator("#node-3-4[aria-current]")).to_be_visible()
    expect(page.locator(".card.chosen")).to_have_attribute("data-card", "4")
    page.keyboard.press("l")
    expect(page.locator(".card.chosen")).to_have_attribute("data-card", "5")
    expect(page).to_have_url(re.compile(r"\?turn=3&candidate=5$"))
    page.reload()
    expect(page.locator(".card.chosen")).to_have_attribute("data-card", "5")
    page.get_by_role("link", name="transcript", exact=True).click()
    expect(page.locator("#turn-3")).to_have_class(re.compile("here"))
    page.locator("#turn-3").get_by_role("link", name="side by side").click()
    expect(page.locator("#group-title")).to_contain_text("#3")


@pytest.mark.extended
def test_tokens_of_the_cards_are_coloured_by_the_chosen_measure(page: Page, episode: Episode) -> None:
    address = f"/runs/{episode.run_id}/episodes/{episode.pk}/tree/?turn=2&candidate=3"
    page.goto(address)
    cards = page.locator(".card")
    expect(page.locator(".card .tokens:visible")).to_have_count(cards.count())
    by = page.get_by_label("colour by")
    expect(by).to_have_value("logprobs")
    expect(page.locator("[data-group] [data-token-scale]")).to_contain_text("log-probability")
    expect(cards.first.locator(".words")).to_be_hidden()
    token = page.locator(".card.chosen .token").first
    token.hover()
    readout = page.locator("[data-group] .readout")
    expect(readout).to_contain_text("candidate3")
    expect(readout).to_contain_text("logprob")
    by.select_option("advantage")
    expect(page).to_have_url(re.compile("by=advantage"))
    expect(token).to_have_attribute("title", re.compile("^advantage "))
    page.locator(".tree .node[aria-current]").focus()
    page.keyboard.press("k")
    expect(page.locator("#group-title")).to_contain_text("#1")
    expect(page).to_have_url(re.compile(r"turn=1&candidate=\d+&by=advantage$"))
    expect(page.get_by_label("colour by")).to_have_value("advantage")
    page.get_by_label("colour by").select_option("text")
    expect(cards.first.locator(".words")).to_be_visible()
    expect(page.locator(".card .tokens:visible")).to_have_count(0)

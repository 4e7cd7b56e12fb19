"""The tree of an episode and its groups, in a browser."""

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.looks import shoot, violations
from tests.end_to_end.seed import Story, encoded, hostile
from webapp.accounts.models import User
from webapp.transcripts.models import Episode

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def episode(ada: User) -> Episode:
    """A training episode of at least four answers with eight candidates each."""
    run = run_make(ada, state="running")
    story = Story(run.pk, start=time.time() - 300)
    tell(run, encoded(story.opening()))
    tell(run, encoded(story.iterations(0, 3, whole=6)))
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
    shoot(page, "tree-tokens")
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


@pytest.mark.extended
def test_scripts_stay_text_in_the_tree(page: Page, ada: User) -> None:
    run = run_make(ada, state="running")
    story = Story(run.pk)
    tell(run, encoded(hostile(story.opening())))
    tell(run, encoded(hostile(story.iterations(0, 2))))
    episode = Episode.objects.filter(kind="train", failed=False).latest("pk")
    page.goto(f"/runs/{run.pk}/episodes/{episode.pk}/tree/")
    expect(page.locator(".card .words").first).to_contain_text("<script>window.hacked = 1</script>")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("turn=2"))
    assert page.evaluate("window.hacked") is None


@pytest.mark.extended
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_fits_and_is_accessible(page: Page, episode: Episode, width: int, colours: str) -> None:
    page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 900 if width > 1000 else 844})
    page.goto(f"/runs/{episode.run_id}/episodes/{episode.pk}/tree/?turn=2&candidate=3")
    expect(page.locator("[data-link]")).to_have_text("live")
    expect(page.locator(".card.chosen .token").first).to_be_visible()
    if width < 1000:
        page.locator(".card.chosen").scroll_into_view_if_needed()
    shoot(page, f"tree-{width}-{colours}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not violations(page)

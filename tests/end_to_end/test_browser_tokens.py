"""Tokens of an answer and transcripts of any length, in a browser."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_told, tell
from tests.end_to_end.seed import HOSTILE, Story
from webapp.accounts.models import User
from webapp.transcripts.models import Episode

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
TURNS = 700
LONG = 4500


def told_episode(story: Story, many: int, long: int) -> list[dict[str, Any]]:
    """An episode of so many turns; the second answer has so many tokens, some of them hostile."""
    episode = story.episode(1, 0, "train", False, "train/long")
    first = episode["turns"][0]
    turns = []
    for place in range(many):
        said = first["candidates"][0] | {"text": f"answer {place + 1} of many", "reward": place}
        turns.append(first | {"index": place, "candidates": [said], "executed": 0, "board": first["board"]})
    words = [HOSTILE, "\u202ereversed", *(f"word{n} " for n in range(2, long))]
    arrays = {"tokens": words, "token_ids": list(range(long)), "logprobs": [-n / long for n in range(long)]}
    turns[1]["candidates"] = [turns[1]["candidates"][0] | arrays | {"versions": [3] * 9 + [4] * (long - 9)}]
    note = {
        "turn": 1, "advantages": [0.8], "ratios": [[1.1] * long], "entropies": [[0.4] * long],
        "training_logprobs": [[-0.5] * long], "masks": [[1, 0] * (long // 2)],
    }  # fmt: skip
    episode |= {"episode": "1-1-train-long", "turns": turns}
    return [episode, story.event("episode_annotation", episode="1-1-train-long", turns=[note], stages={})]


@pytest.fixture
def episode(ada: User) -> Episode:
    """Too much for one document."""
    run, story = run_told(ada, state="running", ago=300)
    tell(run, told_episode(story, TURNS, LONG))
    return Episode.objects.get(name="1-1-train-long")


@pytest.mark.extended
def test_only_what_is_near_is_in_the_document(page: Page, episode: Episode) -> None:
    page.goto(f"/runs/{episode.run_id}/episodes/{episode.pk}/")
    expect(page.locator("#turn-1")).to_have_class(re.compile("here"))
    assert page.locator(".turn").count() < 300
    for place in range(TURNS // 50):
        page.locator("[data-piece]").nth(place).evaluate("element => element.scrollIntoView()")
        expect(page.locator(f"#turn-{place * 50 + 1}")).to_be_attached()
    expect(page.locator(f"#turn-{TURNS}")).to_contain_text(f"answer {TURNS} of many")
    expect(page.locator("#turn-1")).not_to_be_attached()
    assert page.locator(".turn").count() <= 12 * 50
    page.goto(f"/runs/{episode.run_id}/episodes/{episode.pk}/#turn-444")
    page.reload()
    expect(page.locator("#turn-444")).to_be_in_viewport()
    expect(page.locator("#turn-444")).to_be_focused()
    expect(page.locator("[data-board-note]")).to_have_text(f"before #444 of {TURNS}")
    page.keyboard.press("j")
    expect(page.locator("#turn-445")).to_be_focused()
    page.locator("[data-board-scrub]").focus()
    page.keyboard.press("Home")
    expect(page.locator("#turn-1")).to_be_in_viewport()
    expect(page.locator("#turn-1")).to_have_class(re.compile("here"))


def test_tokens_by_every_measure(page: Page, episode: Episode) -> None:
    page.goto(f"/runs/{episode.run_id}/episodes/{episode.pk}/?by=mismatch#turn-2")
    tokens = page.locator("[data-token-strip] .token")
    expect(page.locator("[data-tokens-by]")).to_have_value("mismatch")
    expect(tokens).to_have_count(2000)
    expect(tokens.first).to_contain_text("<script>window.hacked = 1</script>")
    expect(tokens.nth(1)).to_have_text("‹202e›reversed")
    options = page.locator("[data-tokens-by] option")
    assert {each.get_attribute("value") for each in options.all()} == {
        "logprobs", "advantage", "ratios", "entropies", "mismatch", "training_logprobs", "masks", "versions", "token_ids",
    }  # fmt: skip
    tokens.nth(9).hover()
    readout = page.locator("[data-token-readout]")
    for name, value in {
        "token": "word9·", "place": "10 of 4,500", "id": "9", "logprob": "−0.002", "advantage": "0.800", "ratio": "1.100",
        "entropy": "0.400", "learner": "−0.500", "mismatch": "−0.498", "mask": "masked out", "version": "4",
    }.items():  # fmt: skip
        assert (
            readout.locator("div", has=page.get_by_text(name, exact=True)).locator("dd").text_content()
            == value
        )
    tokens.nth(9).focus()
    page.keyboard.press("ArrowLeft")
    expect(tokens.nth(8)).to_be_focused()
    expect(readout).to_contain_text("word8")
    scale = page.locator("[data-token-scale]")
    expect(scale).to_have_text(re.compile("mismatch: .* nats · dashed: masked out, not trained on"))
    expect(tokens.nth(1)).to_have_class(re.compile("masked"))
    page.locator("[data-tokens-by]").select_option("masks")
    expect(scale).to_have_text("dashed: masked out, not trained on")
    expect(page).to_have_url(re.compile(r"by=masks#turn-2$"))
    expect(tokens.nth(1)).to_have_class(re.compile("masked"))
    expect(tokens.nth(0)).not_to_have_class(re.compile("masked"))
    page.locator("[data-tokens-by]").select_option("token_ids")
    expect(tokens.nth(1999)).to_have_text("1999")
    for _ in range(2000):
        page.locator("[data-token-strip]").evaluate("element => element.scrollTo(0, element.scrollHeight)")
        if tokens.count() == LONG:
            break
        page.wait_for_timeout(50)
    expect(tokens.nth(LONG - 1)).to_have_text(str(LONG - 1))
    assert page.evaluate("window.hacked") is None

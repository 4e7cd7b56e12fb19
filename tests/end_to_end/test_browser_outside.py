"""Pages of runs that others play, and of asynchronous ones: gateway, masked answers, records' own facts, overlap in the timeline."""

import time
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_told, tell
from tests.end_to_end.looks import look_at
from tests.end_to_end.seed import HOSTILE, Story
from webapp.accounts.models import User
from webapp.runs.models import Phase, Run
from webapp.transcripts.models import Episode

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SAID = (
    "The", " answer", " is", " 5", "<end>", "\n", "Not", " right", ".", "\n", "It", " is", " \\boxed{4}", "<end>",
)  # fmt: skip
MASK = [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1]
FACTS = {"uid": "17-a", "raw_reward": "0.81", "tries": '{"first": "5", "second": "4"}', "note": HOSTILE}


def conversation(story: Story, number: int, board: dict[str, Any] | None) -> list[dict[str, Any]]:
    """An episode of one answer, in the middle of which the environment spoke."""
    episode = story.episode(3, number, "train", True, f"math/{number}")
    said = episode["turns"][0]["candidates"][0] | {
        "text": "".join(SAID).replace("<end>", ""), "tokens": list(SAID), "token_ids": list(range(len(SAID))),
        "logprobs": [-0.1] * len(SAID), "versions": [2] * 5 + [-1] * 5 + [3] * 4, "reward": 0.81, "team_reward": 0.81,
    }  # fmt: skip
    asked = [
        {"role": "system", "content": "Answer in a box."},
        {"role": "user", "content": "What is 2 + 2 ?"},
    ]
    turn = episode["turns"][0] | {"messages": asked, "candidates": [said], "executed": 0, "board": None}
    name = f"1-3-train-{number}"
    note = {"turn": 0, "advantages": [0.9], "masks": [MASK]}
    told = {
        "episode": name, "title": "2 + 2", "outcome": "reward 0.81", "turns": [turn], "final_board": board,
    }  # fmt: skip
    return [episode | told, story.event("episode_annotation", episode=name, turns=[note], stages={})]


@pytest.fixture
def run(ada: User) -> Run:
    """A run with a gateway, whose generation goes on during updates, and two answers with masks."""
    made, story = run_told(ada, "played by others", state="running", ago=300)
    lines = [{"label": label, "text": text, "state": ""} for label, text in FACTS.items()]
    for number, board in enumerate((None, {"kind": "lines", "lines": lines})):
        tell(made, conversation(story, number, board))
    made.refresh_from_db()
    made.facts = made.facts | {"gateway": "http://127.0.0.1:43817"}
    made.save(update_fields=["facts"])
    start = time.time() - 200
    Phase.objects.bulk_create(
        Phase(
            run=made, attempt=1, cursor=1, iteration=iteration, worker=worker, phase=phase, policy=policy,
            start=start + 10 * iteration + first, end=start + 10 * iteration + last,
        )
        for iteration in range(12)
        for policy in ("planner", "executor")
        for worker, phase, first, last in (
            (f"rollout-{policy}-0", "rollout", 0.2, 9.6), (f"rollout-{policy}-1", "rollout", 0.2, 8.9),
            (f"update-{policy}", "update", 2.0, 8.0), (f"rollout-{policy}-0", "sync", 9.6, 10.0),
        )
    )  # fmt: skip
    return made


@pytest.mark.extended
def test_pages_fit_and_are_accessible(page: Page, run: Run) -> None:
    first, second = Episode.objects.filter(run=run).order_by("pk")
    pages = [
        ("overview", f"/runs/{run.pk}/"),
        ("timeline", f"/runs/{run.pk}/timeline/?first=4&last=7"),
        ("masked", f"/runs/{run.pk}/episodes/{first.pk}/"),
        ("record", f"/runs/{run.pk}/episodes/{second.pk}/#ending"),
    ]
    look_at(page, "outside", pages)


def test_the_gateway_tells_where_it_is_and_how_to_use_it(page: Page, run: Run) -> None:
    page.goto(f"/runs/{run.pk}/")
    panel = page.get_by_role("region", name="Gateway")
    expect(panel).to_contain_text("http://127.0.0.1:43817")


@pytest.mark.extended
def test_what_was_masked_is_told_from_what_was_learnt(page: Page, run: Run) -> None:
    episode = Episode.objects.filter(run=run).earliest("pk")
    page.goto(f"/runs/{run.pk}/episodes/{episode.pk}/")
    words = page.locator("#turn-1 .said .words")
    expect(words).to_have_text("The answer is 5\nNot right.\nIt is \\boxed{4}", use_inner_text=True)
    expect(words.locator(".unlearnt")).to_have_text("\nNot right.\n", use_inner_text=True)
    expect(page.locator("[data-token-strip] .token.masked")).to_have_count(5)


@pytest.mark.extended
def test_a_records_own_facts_are_shown(page: Page, run: Run) -> None:
    episode = Episode.objects.filter(run=run).latest("pk")
    page.goto(f"/runs/{run.pk}/episodes/{episode.pk}/")
    expect(page.locator("[data-board-note]")).to_have_text("at the end")
    lines = page.locator("[data-board-drawing] li")
    expect(lines).to_have_text([f"{label}{text}" for label, text in FACTS.items()])
    assert page.evaluate("window.hacked") is None

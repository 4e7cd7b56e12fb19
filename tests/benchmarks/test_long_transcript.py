"""A transcript of 20,000 events in Chromium on a real server: how soon its first answer is seen, and how it scrolls; printed and
never judged by a clock.

    python -m pytest -s -m slow tests/benchmarks/test_long_transcript.py

Milliseconds, median and longest of five visits, each with an empty cache: from the navigation until the first answer is painted, until
its tokens are there; from a jump until an answer stands there; frames that took longer than 50 ms while the wheel turns.
"""

import statistics
import time
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.end_to_end.conftest import ada, context, kept_server, page, run_make, server, static_root  # noqa: F401
from tests.end_to_end.seed import Story
from webapp.accounts.models import User
from webapp.runs.models import Run
from webapp.transcripts.models import Episode
from webapp.transcripts.services import annotations_store, episodes_store
from workers.telemetry.events import EpisodeAnnotationEvent, EpisodeEvent

pytestmark = [pytest.mark.extended, pytest.mark.browser, pytest.mark.django_db(transaction=True)]
TURNS, VISITS = 20_000, 5
JUMPS = (10_000, 20_000, 5_000, 1, 15_555)
SEEN = """() => {
  const turn = document.querySelector('.turn');
  if (!turn || !turn.getBoundingClientRect().height) return 0;
  return performance.now();
}"""
WHEEL = """() => new Promise((done) => {
  const inSight = ({ bottom, top }) => bottom > 0 && top < innerHeight;
  const answers = () => [...document.querySelectorAll('.turn')];
  const told = { frames: 0, slow: 0, worst: 0, blank: 0 };
  let last = performance.now();
  const step = (now) => {
    const took = now - last;
    last = now;
    told.frames += 1;
    told.worst = Math.max(told.worst, Math.round(took));
    if (took > 50) told.slow += 1;
    if (!answers().some((each) => inSight(each.getBoundingClientRect()))) told.blank += 1;
    scrollBy(0, 60);
    if (told.frames < 600) requestAnimationFrame(step);
    else done({ ...told, answers: answers().length });
  };
  requestAnimationFrame(step);
})"""


def long_episode(run: Run) -> Episode:
    """20,000 answers of two candidates each, a message of thirty words before each, a board, tokens, and what the update learnt."""
    story = Story(run.pk)
    events: list[dict[str, Any]] = [
        story.episode(1, place, "train", False, f"train/{place}") for place in range(20)
    ]
    pool = [turn for event in events for turn in event["turns"]]
    turns = []
    for place in range(TURNS):
        turn = pool[place % len(pool)]
        message = {
            "role": "user",
            "content": f"event {place}: " + " ".join(["a corridor leads on to the east"] * 5),
        }
        turns.append(
            turn
            | {
                "index": place // 2,
                "candidates": turn["candidates"][:2],
                "executed": 0,
                "messages": [message],
            }
        )
    whole = events[0] | {"episode": "1-1-train-long", "turns": turns}
    episodes_store(run, 1, [EpisodeEvent.model_validate(whole)])
    annotations_store(run, 2, [EpisodeAnnotationEvent.model_validate(story.annotation(whole))])
    return Episode.objects.get(name="1-1-train-long")


def told(what: str, costs: list[float]) -> None:
    print(f"\n{what}: median {statistics.median(costs):.0f} ms, longest {max(costs):.0f} ms", end="")


def test_a_transcript_of_many_events(context: BrowserContext, ada: User) -> None:  # noqa: F811
    episode = long_episode(run_make(ada, state="finished"))
    print(f"\n{TURNS:,} answers, {episode.body.size / 1e6:.1f} MB stored", end="")
    address = f"/runs/{episode.run_id}/episodes/{episode.pk}/"
    first, tokens = [], []
    for _ in range(VISITS + 1):
        page: Page = context.new_page()  # noqa: F811
        context.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
        page.goto(address, wait_until="commit")
        first.append(page.wait_for_function(SEEN, polling="raf").json_value())
        page.wait_for_selector("[data-token-strip] .token", state="attached")
        tokens.append(page.evaluate("performance.now()"))
        page.close()
    told("first answer seen", first[1:])
    told("its tokens there", tokens[1:])
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".turn.here")
    costs = []
    for number in JUMPS:
        began = time.perf_counter()
        page.evaluate(f"location.hash = 'turn-{number}'")
        page.wait_for_selector(f"#turn-{number}.here", timeout=60_000)
        costs.append((time.perf_counter() - began) * 1e3)
    told("a jump", costs)
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_selector("#turn-1")
    found = page.evaluate(WHEEL)
    print(f"\nscrolled 36,000 pixels: {found}")
    page.close()

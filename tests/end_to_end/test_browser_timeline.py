"""The timeline in a browser: lanes of a story, windows by the keyboard."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import zstandard
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.looks import violations
from webapp.accounts.models import User
from webapp.runs.models import Phase, Run
from webapp.transcripts.models import Episode, EpisodeBody

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_lanes_and_their_window(page: Page, ada: User) -> None:
    run = run_make(ada, "one", state="running")
    for iteration in range(30):
        spans = [
            ("driver", "rollout", "", 0, 6), ("driver", "evaluate", "", 6, 7), ("update-0", "update", "planner", 7, 9.5),
            ("update-1", "update", "executor", 7, 8), ("update-0", "sync", "planner", 9.5, 10),
        ]  # fmt: skip
        Phase.objects.bulk_create(
            Phase(
                run=run, attempt=1, cursor=1, iteration=iteration, worker=worker, phase=phase, policy=policy,
                start=1e9 + 10 * iteration + start, end=1e9 + 10 * iteration + end,
            )
            for worker, phase, policy, start, end in spans
        )  # fmt: skip
    page.goto(f"/runs/{run.pk}/timeline/")
    expect(page.get_by_role("heading", name="Iterations 20 to 29")).to_be_visible()
    expect(page.get_by_role("application", name="Timeline")).to_be_visible()
    shares = page.get_by_role("region", name="Shares of time")
    expect(shares.get_by_role("row", name="update-1")).to_contain_text("90%")
    page.get_by_role("link", name="Earlier").press("Enter")
    expect(page.get_by_role("heading", name="Iterations 10 to 19")).to_be_visible()
    page.get_by_role("link", name="Closer").click()
    expect(page.get_by_role("heading", name="Iterations 15 to 19")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def run_with_spans(ada: User, workers: int) -> Run:
    """Ten iterations of ten seconds: every worker rolls out for six, then updates for as many tenths as its number."""
    run = run_make(ada, "lanes", state="running")
    Phase.objects.bulk_create(
        Phase(
            run=run, attempt=1, cursor=1, iteration=iteration, worker=f"worker-{number}", phase=phase, policy="planner",
            start=1e9 + 10 * iteration + start, end=1e9 + 10 * iteration + end,
        )
        for iteration in range(10)
        for number in range(workers)
        for phase, start, end in (("rollout", 0, 6), ("update", 6, 6 + 4 * number / workers + 0.1))
    )  # fmt: skip
    return run


def span_of(page: Page) -> float:
    """Seconds that the address says are looked at."""
    query = parse_qs(urlsplit(page.url).query)
    return float(query["to"][0]) - float(query["from"][0])


@pytest.mark.extended
def test_zoom_pan_and_the_address(page: Page, ada: User) -> None:
    run = run_with_spans(ada, 3)
    page.goto(f"/runs/{run.pk}/timeline/?first=0&last=9")
    canvas = page.get_by_role("application", name="Timeline")
    expect(page.locator("[data-said]")).to_contain_text("iterations 0 to 9")
    canvas.focus()
    canvas.press("+")
    page.wait_for_url("**/timeline/?from=*")
    near = span_of(page)
    canvas.hover()
    page.mouse.wheel(0, -300)
    page.wait_for_function(
        "before => new URL(location).searchParams.get('to') - new URL(location).searchParams.get('from') < before - 1",
        arg=near,
    )
    before = page.url
    canvas.press("ArrowRight")
    page.wait_for_function("before => location.href !== before", arg=before)
    window = page.url
    page.reload()
    expect(page.locator("[data-said]")).to_contain_text("iterations")
    assert page.url == window, "the address is the window"
    before = parse_qs(urlsplit(page.url).query)["from"][0]
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 600, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 700, box["y"] + 50, steps=3)
    page.mouse.up()
    page.wait_for_function("before => new URL(location).searchParams.get('from') < before", arg=before)
    page.get_by_role("button", name="Whole run").click()
    expect(page.locator("[data-said]")).to_contain_text("iterations 0 to 9")


@pytest.mark.extended
def test_pointing_tells_phase_and_duration(page: Page, ada: User) -> None:
    run = run_with_spans(ada, 3)
    page.goto(f"/runs/{run.pk}/timeline/?from=1000000000&to=1000000010")
    canvas = page.get_by_role("application", name="Timeline")
    expect(canvas).to_be_visible()
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 168 + 0.3 * (box["width"] - 168), box["y"] + 48)
    tip = page.locator("[data-tip]")
    expect(tip).to_contain_text("rollout 6.00 s")
    expect(tip).to_contain_text("worker-0 planner")
    page.mouse.move(box["x"] + 168 + 0.9 * (box["width"] - 168), box["y"] + 48)
    expect(tip).to_contain_text("waits")


@pytest.mark.extended
def test_many_lanes_are_a_carpet_and_paper_has_the_plain_form(page: Page, ada: User) -> None:
    run = run_with_spans(ada, 64)
    page.goto(f"/runs/{run.pk}/timeline/?first=0&last=9")
    canvas = page.get_by_role("application", name="Timeline")
    expect(page.locator("[data-timeline].carpet")).to_be_visible()
    box = canvas.bounding_box()
    assert box and box["height"] < 64 * 10 + 100
    expect(page.locator(".lanes")).to_be_hidden()
    page.emulate_media(media="print")
    expect(page.locator(".lanes")).to_be_visible()
    expect(canvas).to_be_hidden()


def in_use(run: Run, seq: int, worker: str, device: str) -> None:
    """The worker's device is half busy while it rolls out, wholly while it updates."""
    samples = [[1e9 + second, 50.0 if second % 10 < 6 else 100.0] for second in range(100)]
    event = {
        "run": run.pk, "attempt": 1, "producer": "devices", "seq": seq, "time": 1.1e9, "type": "utilisation",
        "worker": worker, "device": device, "samples": samples,
    }  # fmt: skip
    tell(run, [event])


@pytest.mark.extended
def test_the_load_of_a_device_lies_under_its_lane(page: Page, ada: User) -> None:
    run = run_with_spans(ada, 3)
    for number in range(3):
        in_use(run, number + 1, f"worker-{number}", f"node-1 GPU {number}, NVIDIA H100")
    page.goto(f"/runs/{run.pk}/timeline/?from=1000000000&to=1000000010")
    canvas = page.get_by_role("application", name="Timeline")
    expect(canvas).to_be_visible()
    box = canvas.bounding_box()
    assert box and box["height"] > 3 * (20 + 16), "each lane has a band for its device"
    for share, said in ((0.3, "50%"), (0.85, "100%")):
        page.mouse.move(box["x"] + 168 + share * (box["width"] - 168), box["y"] + 48)
        expect(page.locator("[data-tip]")).to_contain_text(f"node-1 GPU 0, NVIDIA H100 {said}")
    expect(page.get_by_role("region", name="Shares of time")).to_contain_text("node-1 GPU 2, NVIDIA H100")


@pytest.mark.extended
def test_a_carpet_has_one_row_a_device(page: Page, ada: User) -> None:
    run = run_with_spans(ada, 32)
    for number in range(32):
        in_use(run, number + 1, f"worker-{number}", f"node-1 GPU {number % 8}, NVIDIA H100")
    page.goto(f"/runs/{run.pk}/timeline/?first=0&last=9")
    canvas = page.get_by_role("application", name="Timeline")
    expect(page.locator("[data-timeline].carpet")).to_be_visible()
    box = canvas.bounding_box()
    assert box and box["height"] == pytest.approx(38 + 8 * 7 + 8 + 40 + 4, abs=1)
    page.mouse.move(box["x"] + 168 + 0.3 * (box["width"] - 168), box["y"] + 38 + 7 * 3.5)
    expect(page.locator("[data-tip]")).to_contain_text("worker-3 planner, worker-11 planner")


def batch_of(run: Run, count: int) -> list[Episode]:
    """Iteration 5: episodes that play two turns of planner and executor, each third of them truncated; every second kept."""
    episodes: list[dict[str, Any]] = []
    for number in range(count):
        start, stages = 1000.0 + 0.1 * (number % 8) + (3.0 if number >= count // 2 else 0.0), []
        for turn in range(2):
            at = start + turn
            stages += [
                {"kind": "generate", "start": at, "end": at + 0.3, "policy": "planner", "versions": [4, 4]},
                {"kind": "generate", "start": at + 0.3, "end": at + 0.7, "policy": "executor", "versions": [3 + turn] * 2},
                {"kind": "environment", "start": at + 0.7, "end": at + 1.0},
            ]  # fmt: skip
        reward, cut = (number % 5) / 4, number % 3 == 0
        tokens = {"planner": 4 + number, "executor": 20 - number % 7}
        roles = {
            role: {
                "policy": role, "reward": reward / 2, "tokens": size, "truncated": cut and role == "executor",
            }
            for role, size in tokens.items()
        }  # fmt: skip
        episodes.append({
            "episode": f"1-5-train-{number}", "success": reward > 0.5, "truncated": cut, "episode_return": reward, "turns": 2,
            "length": 24 + number - number % 7, "tokens": 200, "staleness": 1, "queued": 1000.0, "started": start,
            "ended": start + 2.0, "stages": stages, "roles": roles,
        })  # fmt: skip
    event = {
        "run": run.pk, "attempt": 1, "producer": "hand", "seq": 1, "time": 1010.0, "type": "batch", "iteration": 5,
        "consumed": 1006.0, "learnt": 1008.0, "episodes": episodes,
    }  # fmt: skip
    tell(run, [event])
    rows = Episode.objects.bulk_create(
        Episode(
            run=run, attempt=1, cursor=1, name=facts["episode"], iteration=5, kind="train", task="t", title="t",
            outcome="reached the goal", success=True, episode_return=facts["episode_return"], turn_count=2, tokens=200,
            started=facts["started"], ended=facts["ended"],
        )
        for facts in episodes[::2]
    )  # fmt: skip
    EpisodeBody.objects.bulk_create(
        EpisodeBody(episode=row, size=1, data=zstandard.compress(b'{"turns": [], "final_board": null}'))
        for row in rows
    )
    return rows


@pytest.mark.extended
def test_the_batch_and_its_transcripts(page: Page, ada: User) -> None:
    run = run_make(ada, "one", state="running")
    kept = batch_of(run, 16)
    page.goto(f"/runs/{run.pk}/timeline/?iteration=5")
    bars = page.get_by_role("application", name="Bars of the batch's episodes")
    expect(page.locator("[data-said]")).to_have_text("16 episodes in 8.00 s")
    expect(page.locator("[data-legend]")).to_contain_text("executor version 3")
    expect(page.locator("[data-scatter] .cut")).to_have_count(6)
    bars.press("ArrowDown")
    expect(page.locator("[data-tip]")).to_contain_text("waiting for the update 4.00 s")
    expect(page.locator("[data-tip]")).to_contain_text("return (shaped) 0.00, ")
    expect(page.get_by_role("group", name="Return (shaped) against response tokens")).to_be_visible()
    expect(page.locator("[data-scatter] title").first).to_contain_text("1-5-train-0: return (shaped) 0.00, ")
    page.get_by_role("combobox", name="of").select_option("planner")
    page.wait_for_url("**role=planner")
    expect(page.get_by_role("group", name="Reward against response tokens")).to_be_visible()
    expect(page.locator("[data-scatter] .cut")).to_have_count(0)
    page.get_by_role("columnheader", name="return").get_by_role("link").click()
    page.wait_for_url("**sort=-reward")
    expect(page.get_by_role("columnheader", name="return")).to_have_attribute("aria-sort", "descending")
    page.locator("[data-batch][data-ready]").wait_for()
    assert violations(page) == []
    box = bars.bounding_box()
    assert box
    best = next(row for row in kept if row.name == "1-5-train-14")
    page.mouse.click(box["x"] + 200, box["y"] + 20 + 18 * 0.5)
    page.wait_for_url(f"**/episodes/{best.pk}/")

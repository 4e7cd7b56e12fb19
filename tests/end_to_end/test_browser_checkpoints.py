"""The checkpoints of a run in a browser: table, download, pins, lineage, and what is played from them."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_told, tell
from tests.end_to_end.seed import Story
from training_core.checkpoints import writing
from webapp.accounts.models import User
from webapp.health.models import Finding
from webapp.jobs.models import Job
from webapp.runs.models import Run
from webapp.scheduling.forking import run_fork

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def home(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this process and of the server."""
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run_id: None)
    return Path(settings.TROUPE_HOME)


def write(run: Run, story: Story, home: Path, iteration: int, success: float, best: bool = False) -> None:
    """A checkpoint on disk, and the driver's word of it."""
    path = f"checkpoints/iteration-{iteration:06d}"
    with writing(home / "runs" / run.pk / "checkpoints", iteration, {}) as draft:
        for policy in ("planner", "executor"):
            (draft / policy).mkdir()
            (draft / policy / "config.json").write_text("{}")
            (draft / policy / "model.safetensors").write_bytes(b"weights of " + policy.encode())
    metrics = {"eval/success": success, "eval/return": 2 * success, "train/return": success}
    metrics["eval_sampled/success"] = success
    event = story.event(
        "checkpoint", iteration=iteration, path=path, bytes=5_300_000, metrics=metrics, best=best
    )
    tell(run, [event])


@pytest.fixture
def told(ada: User, home: Path) -> tuple[Run, Story]:
    """A run with three checkpoints, the second of them the best."""
    run, story = run_told(ada, "duo", iterations=19, ago=60)
    for iteration, success in ((20, 0.5), (30, 0.875), (40, 0.75)):
        write(run, story, home, iteration, success, best=success == 0.875)
    return run, story


def family(run: Run, ada: User) -> Run:
    """Forks at 20 and 30, one of them for a finding, and a fork of that one."""
    Run.objects.filter(pk=run.pk).update(iteration=44)
    first = run_fork(ada, run.checkpoints.get(iteration=30), {"run.seed": 4}, "duo, lower rate")
    second = run_fork(ada, run.checkpoints.get(iteration=20), {"run.seed": 5}, "duo after kl blow up")
    Finding.objects.create(
        run=run, rule="kl_blow_up", key="k", severity="critical", title="KL", first_step=21, last_step=25, fork=second
    )  # fmt: skip
    Run.objects.filter(pk=first.pk).update(iteration=90, state="finished", headline={"eval/success": 0.94})
    Run.objects.filter(pk=second.pk).update(iteration=35, state="running")
    return first


def test_the_table_tells_and_keeps_up(page: Page, told: tuple[Run, Story], home: Path) -> None:
    run, story = told
    page.goto(f"/runs/{run.pk}/checkpoints/")
    expect(page.locator("[data-link]")).to_have_text("live")
    rows = page.locator("[data-checkpoints] tbody tr")
    expect(rows).to_have_count(3)
    page.set_viewport_size({"width": 1440, "height": 900})
    note = page.get_by_text("during the run the newest")
    lines = "note => note.getBoundingClientRect().height / parseFloat(getComputedStyle(note).lineHeight)"
    assert note.evaluate(lines) < 1.5, "a note beside a title wraps only at the end of the panel"
    overflow = "element => element.scrollWidth - element.clientWidth"
    assert page.locator(".scroll-x:has([data-checkpoints])").evaluate(overflow) <= 0, "buttons are cut"
    expect(rows.nth(0)).to_contain_text("last")
    expect(rows.nth(1)).to_contain_text("best")
    expect(rows.nth(1).locator('[data-label="eval/return (shaped)"]')).to_have_text("1.75")
    expect(page.locator("main")).to_contain_text("3 on disk, 15.9 MB")
    write(run, story, home, 44, 0.9, best=True)
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("best")
    expect(rows.nth(2).locator("[data-best]")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("4 on disk, 21.2 MB")
    page.get_by_role("button", name="Pin iteration 20").click()
    expect(rows.nth(3)).to_contain_text("pinned")
    page.get_by_role("button", name="Delete iteration 20").click()
    expect(page.locator("main")).to_contain_text("it is pinned; unpin it first")
    page.get_by_role("button", name="Delete iteration 30").click()
    expect(page.locator("tr.gone")).to_contain_text("removed")
    assert not (home / "runs" / run.pk / "checkpoints/iteration-000030").exists()


@pytest.mark.extended
def test_forked_drawn_and_played(page: Page, ada: User, told: tuple[Run, Story]) -> None:
    run, _ = told
    page.goto(f"/runs/{run.pk}/checkpoints/")
    page.get_by_role("link", name="Fork iteration 30").click()
    expect(page.locator("main")).to_contain_text("at iteration 30")
    first = family(run, ada)
    page.goto(f"/runs/{run.pk}/checkpoints/")
    lanes = page.locator(".lanes tbody tr")
    expect(lanes).to_have_count(3)
    expect(lanes.nth(2)).to_contain_text("from iteration 20, for kl_blow_up, at 35")
    lanes.nth(1).get_by_role("link", name="duo, lower rate").click()
    expect(page).to_have_url(f"{page.url.split('/runs/')[0]}/runs/{first.pk}/")
    page.goto(f"/runs/{run.pk}/checkpoints/")
    page.get_by_role("link", name="Play iteration 30").click()
    expect(page.locator("select[name=checkpoint]").first).to_have_value("checkpoints/iteration-000030")
    page.get_by_label("Episodes", exact=True).fill("200")
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Evaluation of duo at iteration 30")
    job = Job.objects.get()
    assert job.parameters["episodes"] == 200
    result = {"episodes": 200, "success": 0.81, "return": 1.5}
    Job.objects.filter(pk=job.pk).update(state="finished", result=result)
    page.goto(f"/runs/{run.pk}/checkpoints/")
    expect(page.locator('[data-region="played"] tbody tr')).to_contain_text("0.81")

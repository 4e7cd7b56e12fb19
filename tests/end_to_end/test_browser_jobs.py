"""Short jobs in a browser: asked for at a checkpoint, followed while they play, spoken with."""

import re
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from tests.end_to_end.announcements import listen, wait_for
from tests.end_to_end.conftest import run_make
from tests.end_to_end.looks import fits
from tests.end_to_end.seed import Story
from training_core.config.files import load_config
from webapp.accounts.models import User
from webapp.checkpoints.models import Checkpoint
from webapp.jobs.models import Job
from webapp.jobs.services import job_folder, jobs_follow, jobs_submit
from webapp.jobs.starting import Subject, job_create
from webapp.runs.models import Run
from workers.jobs.context import wilson
from workers.launchers.registry import FakeLauncher

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def launcher(monkeypatch: pytest.MonkeyPatch) -> FakeLauncher:
    """This process launches and follows; the server only reads the job's folder."""
    fake = FakeLauncher()
    monkeypatch.setattr("webapp.jobs.services.make_launcher", lambda kind: fake)
    return fake


def saved(run: Run, iteration: int = 20, **fields: Any) -> Checkpoint:
    """A checkpoint of a run, in the database alone."""
    fields |= {"path": f"checkpoints/iteration-{iteration:06d}", "size": 1, "time": timezone.now()}
    return Checkpoint.objects.create(run=run, attempt=1, cursor=1, iteration=iteration, **fields)


def grid(row: int, column: int) -> dict[str, Any]:
    """A board with the agent in this cell."""
    cells = [[1, 1, "wall"], [2, 2, "goal"], [row, column, "agent"]]
    return {"kind": "grid", "rows": 3, "columns": 3, "cells": cells}


def agent(page: Page) -> Locator:
    """The drawing of the board; its name says where the agent is."""
    return page.locator("[data-board-drawing] svg")


def move(role: str, text: str, board: dict[str, Any]) -> dict[str, Any]:
    """One move of a conversation."""
    return {"role": role, "saw": f"goal below {HOSTILE}", "text": text, "info": "moved", "board": board}


def test_a_conversation_from_the_checkpoint_to_the_end(page: Page, ada: User) -> None:
    run = run_make(ada, "talkative")
    saved(run)
    listen(page)
    page.goto(f"/runs/{run.pk}/checkpoints/")
    fits(page)
    page.get_by_role("button", name="Start chat", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Conversation with talkative at iteration 20")
    job = Job.objects.get()
    jobs_submit()
    expect(page.get_by_text("running")).to_be_visible()
    asked = {"turn": 0, "role": "planner", "prompt": HOSTILE, "saw": HOSTILE, "board": grid(0, 0)}
    job_folder(job).write("moment", {"moves": [], "asked": asked, "title": "3x3", "board": grid(0, 0)})
    field = page.get_by_label("Answer of planner")
    expect(field).to_be_focused()
    expect(agent(page)).to_have_attribute("aria-label", re.compile("agent at row 1, column 1.*now"))
    fits(page)
    field.fill("north east")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("waiting for the other roles")).to_be_visible()
    assert job_folder(job).said(0) == "north east"
    moves = [move("planner", "north east", grid(0, 0)), move("executor", "right", grid(0, 1))]
    asked |= {"turn": 1}
    job_folder(job).write("moment", {"moves": moves, "asked": asked, "title": "3x3", "board": grid(0, 2)})
    expect(page.get_by_text("it is your turn")).to_be_visible()
    wait_for(page, "status", "planner (you) it is your turn")
    for count in (1, 2):  # the same error is announced again
        page.locator("input[name=turn]").evaluate("(field) => (field.value = 9)")
        page.get_by_role("button", name="Send").click()
        page.wait_for_function(
            "(count) => window.announcements.filter(({ text }) => text.includes('it is not your turn')).length === count",
            arg=count,
        )
    expect(agent(page)).to_have_attribute("aria-label", re.compile("agent at row 1, column 3.*now"))
    expect(page.locator(".board .trail")).to_have_count(1)
    page.get_by_role("link", name="executor #2").click()
    expect(agent(page)).to_have_attribute(
        "aria-label", re.compile("agent at row 1, column 2.*before #2 of 2")
    )
    fits(page)
    field.fill("down")
    page.get_by_role("button", name="Send").click()
    job_folder(job).keep([Story(run.pk).episode(20, 0, "eval", True, "task")])
    result = {"success": 1.0, "return": 2.0, "episodes": 1, "rewards": {"planner": 2.0}}
    job_folder(job).write("result", result)
    jobs_follow()
    expect(page.get_by_text("finished")).to_be_visible()
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    expect(page.get_by_role("button", name="Next task")).to_be_visible()
    expect(agent(page)).to_have_attribute("aria-label", re.compile("at the end"))
    page.get_by_label("Turn shown on the board").fill("0")
    expect(agent(page)).to_have_attribute("aria-label", re.compile("before #1 of"))
    fits(page)
    page.goto("/jobs/")
    fits(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{page.url.split('/jobs/')[0]}/jobs/{job.pk}/")


CHECKS = {
    "GPUs": ("passed", "No GPU is requested.", ""),
    "environment": ("passed", "The environment plan_path was constructed.", ""),
    "tokenizer and chat template of little": ("passed", "The first prompt has 214 tokens.", ""),
}
BROKEN = {
    "tokenizer and chat template of little": (
        "failed",
        "The model '/models/little' has no chat template.",
        "Use an instruction-tuned model, or add a chat_template.jinja to its folder.",
    ),
    "weights of little": ("unknown", "The weights of org/little are read when the run starts.", ""),
}


def check_end(checks: dict[str, tuple[str, str, str]]) -> None:
    """End the newest check with these results."""
    job = Job.objects.filter(kind="check").latest("created_at")
    jobs_submit()
    rows = [
        dict(zip(("name", "state", "text", "remedy"), (name, *row), strict=True))
        for name, row in checks.items()
    ]
    failed = any(row["state"] == "failed" for row in rows)
    job_folder(job).write("result", {"checks": rows, "failed": failed})
    jobs_follow()


@pytest.mark.extended
def test_a_check_and_a_dry_run_from_the_form(page: Page, ada: User) -> None:
    run_make(ada, "any")
    page.goto("/experiments/new/?preset=plan_path_duo&run.seed=7")
    ready, button = page.locator("#ready"), page.get_by_role("button", name="Check", exact=True)
    expect(ready).to_contain_text("Not checked: models, environment, code and devices.")
    expect(ready).to_have_class("notice warn")
    button.click()
    expect(ready).to_contain_text("waiting in the queue")
    page.reload()
    expect(ready).to_contain_text("waiting in the queue")
    check_end(CHECKS | BROKEN)
    expect(ready).to_have_class("notice bad")
    page.reload()
    expect(ready).to_have_class("notice bad")
    expect(page.get_by_role("list", name="Checks")).to_contain_text(
        "has no chat template. Use an instruction"
    )
    fits(page)
    page.get_by_label("tasks", exact=True).fill("40")
    expect(ready).to_contain_text("fields have changed since the last check")
    button.click()
    expect(ready).to_contain_text("waiting in the queue")
    check_end(CHECKS)
    expect(ready).to_have_class("notice good")
    expect(button).to_be_focused()
    fits(page)
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Dry run of")
    assert Job.objects.get(kind="dry_run").config["run"]["seed"] == 7


@pytest.mark.extended
def test_a_match_and_an_evaluation_say_what_came_out(page: Page, ada: User) -> None:
    run = run_make(ada, "first")
    rows = [saved(run, iteration) for iteration in (20, 40)]
    page.goto(f"/runs/{run.pk}/checkpoints/")
    page.get_by_label("Checkpoint B").fill("20")
    page.get_by_role("button", name="Play the match").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "first at iteration 40 against first at iteration 20"
    )
    match = Job.objects.get()
    assert (match.checkpoint, match.other) == (rows[1], rows[0])
    seats = [{"planner": one, "executor": other} for one in "ab" for other in "ab"]
    lines = [
        {
            "seats": pair, "success": place / 4, "success_interval": wilson(8 * place, 32), "return": 0.5,
            "length": 3.0,
        }
        for place, pair in enumerate(seats)
    ]  # fmt: skip
    played = [Story(run.pk).episode(20, number, "eval", True, HOSTILE) for number in range(3)]
    jobs_submit()
    job_folder(match).keep(played)
    job_folder(match).write("result", {"episodes": 32, "seatings": lines})
    jobs_follow()
    page.reload()
    expect(page.locator("table tbody tr")).to_have_count(4)
    expect(page.locator("table tbody tr").nth(3)).to_contain_text("0.75 0.58 to 0.87")
    expect(agent(page)).to_have_count(1)
    fits(page)
    page.locator(".strip a").nth(2).click()
    expect(page).to_have_url(re.compile(r"\?episode=2$"))
    page.goto(f"/runs/{run.pk}/checkpoints/")
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page).to_have_url(re.compile("/jobs/"))
    evaluation = Job.objects.get(kind="evaluate")
    jobs_submit()
    job_folder(evaluation).keep(played)
    figures = {
        "episodes": 64, "success": 0.875, "success_interval": wilson(56, 64), "return": 1.5, "failed": 0,
    }  # fmt: skip
    figures |= {"length": 3.2, "tokens": 900}
    job_folder(evaluation).write("result", figures | {"rewards": {"planner": 0.5, "executor": 1.0}})
    jobs_follow()
    page.goto(f"/jobs/{evaluation.pk}/")
    expect(page.locator(".episode-facts")).to_contain_text("0.88 95%: 0.77 to 0.94")
    fits(page)


@pytest.mark.extended
def test_a_checkpoint_of_small_networks_is_played_and_never_talked_to(page: Page, ada: User) -> None:
    run = run_make(ada, "chase")
    run.config = load_config("tag_mappo").model_dump(mode="json")
    run.save(update_fields=["config"])
    checkpoint = saved(run, metrics={"eval/return": 7.5})
    page.goto(f"/runs/{run.pk}/checkpoints/")
    expect(page.get_by_role("heading", name="Match two checkpoints")).to_be_visible()
    expect(page.get_by_role("heading", name="Chat", exact=True)).to_have_count(0)
    fits(page)
    subject = Subject(run.config, run, checkpoint, checkpoint)
    figures: dict[str, Any] = {"episodes": 2, "return": 7.5, "return_std": 1.25, "length": 25.0, "failed": 0}
    figures |= {"rewards": {"adversaries": 7.5, "good": -40.25}}
    policy = {
        "policy": "good", "roles": ["good"], "agents": ["agent_0"], "observation": 14, "actions": "5 choices",
        "actor": 5445, "critic": 8257,
    }  # fmt: skip
    pace = {"environment_steps": 200, "steps_per_second": 12_345.6, "iteration_seconds": 1.5}
    results: dict[str, dict[str, Any]] = {
        "dry_run": figures | pace | {"run_seconds": 450.0, "policies": [policy, policy | {"policy": "adversaries"}]},
        "match": {"episodes": 2, "seatings": [figures | {"seats": {"adversaries": "a", "good": "b"}}]},
    }  # fmt: skip
    for kind, result in results.items():
        job = job_create(ada, run.project, kind, subject)
        jobs_submit()
        job_folder(job).write("result", result)
        jobs_follow()
        page.goto(f"/jobs/{job.pk}/")
        expect(page.get_by_text("finished", exact=True)).to_be_visible()
        expect(page.locator("#job")).to_contain_text(
            "7 min 30 s" if kind == "dry_run" else "adversaries earned"
        )
        fits(page)

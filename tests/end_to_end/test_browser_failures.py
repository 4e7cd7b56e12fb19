"""A failed run in a browser: cause, remedy, and the way to the traceback in its log."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.looks import look_at
from tests.end_to_end.seed import Story, encoded
from webapp.accounts.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
CAUSE = "There is no model folder '/models/my-llama' on the machine of the workers."
REMEDY = "Set policies.*.model to a folder with config.json, model.safetensors and tokenizer.json."
TRACEBACK = "Traceback (most recent call last):\n" + "\n".join(
    f'  File "loading.py", line {number}, in load' for number in range(40)
)


def tiles_without_an_episode(page: Page) -> None:
    """The tiles show a missing return, a whole number of failed episodes, and a small cost without an exponent."""
    expect(page.locator('[data-figure="train/return"] .value')).to_have_text("–")
    expect(page.locator('[data-figure="rollout/failed"] .value')).to_have_text("48")
    expect(page.get_by_text("no finite value")).to_be_visible()
    expect(page.locator(".tile [data-hours]")).to_have_text(re.compile(r"^< 0\.01$|^\d+\.\d\d$"))


def test_a_failed_run_states_cause_and_remedy_and_leads_to_its_traceback(page: Page, ada: User) -> None:
    run = run_make(ada, "duo", "running")
    story = Story(run.pk)
    tell(run, encoded(story.opening()))
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-run-head] .state")).to_have_text("running")
    expect(page.locator("[data-fault]")).to_be_hidden()
    nothing = {"train/return": "NaN", "rollout/failed": 48.0}  # no episode of the iteration was complete
    tell(run, encoded([story.event("metrics", step=1, values=nothing)]))
    tiles_without_an_episode(page)
    tell(run, encoded(story.failing(1, CAUSE, REMEDY, TRACEBACK)))
    expect(page.locator("[data-run-head] .state")).to_have_text("failed")
    expect(page.locator("[data-reason]")).to_have_text(CAUSE)
    expect(page.locator("[data-remedy]")).to_have_text(REMEDY)
    look_at(page, "failure", [("page", f"/runs/{run.pk}/"), ("runs", "/runs/")])
    expect(page.locator("[data-why]")).to_have_text(f"{CAUSE} {REMEDY}")
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-reason]")).to_have_text(CAUSE)
    tiles_without_an_episode(page)
    page.goto("/runs/?columns=train/return,rollout/failed")
    shown = page.locator(f'[data-run="{run.pk}"] [data-value]')
    expect(shown).to_have_text(["–", "48"])
    page.goto(f"/runs/{run.pk}/")
    page.get_by_role("link", name="Traceback").click()
    line = page.locator("#traceback")
    expect(line).to_contain_text("Traceback (most recent call last)")
    expect(line).to_be_in_viewport()
    look_at(page, "failure", [("logs", f"/runs/{run.pk}/logs/#traceback")])

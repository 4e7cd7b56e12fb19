"""Ending a run in a browser: what it waits for is shown and moves, and it ends at once only after a question."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Dialog, Page, expect

from tests.end_to_end.conftest import run_make, run_told, tell
from tests.end_to_end.looks import violations
from webapp.accounts.models import User
from webapp.runs.models import Attempt, Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_end_now_asks_first_on_a_stopping_run(page: Page, ada: User) -> None:
    run, story = run_told(ada, "long", "running")
    page.goto(f"/runs/{run.pk}/")
    expect(page.get_by_role("button", name="End now")).to_be_hidden()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-run-head] .state")).to_have_text("stopping")
    expect(page.locator("[data-reason]")).to_contain_text("Pausing: completing iteration")
    expect(page.get_by_role("button", name="Pausing …")).to_be_visible()
    expect(page.get_by_role("button", name="Stopping …")).to_be_hidden()
    page.reload()
    expect(page.get_by_role("button", name="Pausing …")).to_be_visible()
    expect(page.get_by_role("button", name="Stopping …")).to_be_hidden()
    assert violations(page) == []
    asked: list[str] = []

    def refuse(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", refuse)
    page.get_by_role("button", name="End now").click()
    assert "The work of the current iteration is lost" in asked[0]
    run.refresh_from_db()
    assert run.end_requested_at is None, "nothing happens without a yes"
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="End now").click()
    expect(page.locator("[data-reason]")).to_contain_text("Ending now: the driver writes a checkpoint")
    assert Run.objects.get(pk=run.pk).end_requested_at is not None
    tell(run, story.ending(1, "stopped"))
    expect(page.locator("[data-run-head] .state")).to_have_text("paused")
    expect(page.get_by_role("button", name="End now")).to_be_hidden()


@pytest.mark.extended
def test_the_head_counts_the_time_of_attempts_without_pauses(page: Page, ada: User) -> None:
    run = run_make(ada, "paused in between", "running")
    now = timezone.now()
    minutes = [now - timedelta(minutes=minute) for minute in (30, 28, 5, 0)]
    run.attempts.all().delete()
    for number, (start, end) in enumerate(zip(minutes[::2], minutes[1::2], strict=True), 1):
        Attempt.objects.create(
            run=run, number=number, submission_id=f"{run.pk}-{number}", state="ended",
            ended_as="paused", started_at=start, ended_at=end,
        )  # fmt: skip
    Run.objects.filter(pk=run.pk).update(state="finished", started_at=minutes[0], ended_at=minutes[-1])
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-times]")).to_have_text("ran 7 min, 30 min since the start")

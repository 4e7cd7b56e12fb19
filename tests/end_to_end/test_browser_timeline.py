"""The timeline in a browser: lanes of a story, windows by the keyboard."""

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make
from webapp.accounts.models import User
from webapp.runs.models import Phase

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
    expect(page.get_by_role("img", name="update-1 executor: waited 90% of the time")).to_be_visible()
    page.get_by_role("link", name="Earlier").press("Enter")
    expect(page.get_by_role("heading", name="Iterations 10 to 19")).to_be_visible()
    page.get_by_role("link", name="Closer").click()
    expect(page.get_by_role("heading", name="Iterations 15 to 19")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

"""A log that grows quickly, followed by a page and by the terminal: every line once, in order."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import PATIENCE, Server, run_told, tell
from tests.end_to_end.looks import look_at
from webapp.accounts.models import User
from webapp.accounts.tokens import token_create

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LINES, BATCH, IN_PAGE = 5000, 250, 2000
OBSERVE = """() => {
  window.drawn = [];
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) window.drawn.push(node.querySelector(".text").textContent);
  }).observe(document.querySelector("[data-logs]"), { childList: true });
}"""


Follow = Callable[[str, str], "subprocess.Popen[str]"]


@pytest.fixture
def follow(server: Server) -> Iterator[Follow]:
    """Start `troupe logs --follow` of a run's environment worker, with a token; it is ended with the test."""
    started = []

    def start(run_id: str, token: str) -> "subprocess.Popen[str]":
        words = ["-m", "troupe_client.cli.app", "logs", run_id, "-f", "--source", "environment-0"]
        variables = {"TROUPE_URL": server.url, "TROUPE_TOKEN": token, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [sys.executable, *words], env=os.environ | variables, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_page_and_terminal_follow_five_thousand_lines(page: Page, ada: User, follow: Follow) -> None:
    run, story = run_told(ada, "duo", "running")
    first = story.event("log", level="output", source="environment-0", message="ready")
    tell(run, [first])
    page.goto(f"/runs/{run.pk}/logs/")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.evaluate(OBSERVE)
    follower = follow(run.pk, token_create(ada, "cli", ["read"])[1])
    assert follower.stdout is not None and follower.stdout.readline() == "environment-0: ready\n"
    numbers = count()
    for _ in range(LINES // BATCH):
        lines = [
            story.event("log", level="output", source="environment-0", message=f"line {next(numbers)}")
            for _ in range(BATCH)
        ]
        tell(run, lines)
    wanted = [f"line {number}" for number in range(LINES)]
    page.wait_for_function("count => window.drawn.length >= count", arg=LINES)
    assert page.evaluate("window.drawn") == wanted
    assert page.locator(".log").count() == IN_PAGE
    expect(page.locator(".log").last).to_be_in_viewport()

    page.locator("[data-logs]").evaluate("list => list.scrollTo(0, 0)")
    page.get_by_role("button", name="Load earlier lines").click()
    expect(page.locator(".log .text").first).to_have_text(f"line {LINES - IN_PAGE - 1000}")
    expect(page.locator(".log .text").last).to_have_text(f"line {LINES - 1001}")
    tell(run, [story.event("log", level="info", source="driver", message="the newest")])
    page.get_by_role("button", name="Go to the newest line").click()
    expect(page.locator(".log .text").last).to_have_text("the newest")
    assert page.locator(".log").count() <= IN_PAGE

    tell(run, [story.event("status", state="finished", iteration=0, message="")])
    out = follower.stdout.read()
    assert follower.wait(PATIENCE) == 0
    assert [line for line in out.splitlines() if "line" in line] == [
        f"environment-0: {line}" for line in wanted
    ]
    page.get_by_label("Source").select_option("driver")
    page.wait_for_url("**source=driver**")
    expect(page.locator(".log .text").last).to_have_text("the newest")
    look_at(
        page, "logs", [("source", f"/runs/{run.pk}/logs/?source=driver"), ("all", f"/runs/{run.pk}/logs/")]
    )

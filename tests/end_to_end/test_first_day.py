"""The first day of a new user runs from the first command to a shared report, with a mouse and with a keyboard alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.end_to_end.first_day import (
    STEPS,
    Day,
    code_of,
    fork_and_compare,
    own_change,
    report,
    wait_for_checkpoint,
    wrong_walk,
)
from tests.end_to_end.hands import Keyboard, Mouse
from tests.end_to_end.running_stack import RunningStack
from tests.end_to_end.test_browser_stack import keep, login_link

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(1800)]


@pytest.fixture
def day(browser: Browser, tmp_path: Path) -> Iterator[Day]:
    """A stack with its demonstration, which may run the code of a folder of its user, and a browser that is logged in."""
    running = RunningStack(TROUPE_DEMO="1", TROUPE_BASE_MODEL="1")
    running.environment = code_of(running.environment, tmp_path)
    try:
        running.start()
        context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.goto(login_link(running))
        yield Day(running, page, Mouse(page), keep)
        context.close()
    finally:
        running.remove()


def test_the_first_day(day: Day) -> None:
    for step in STEPS:
        step(day)


@pytest.mark.extended
def test_the_first_day_by_keyboard_alone(day: Day) -> None:
    for step in STEPS[: STEPS.index(wait_for_checkpoint) + 1]:
        step(day)
    day.hand = Keyboard(day.page)
    own_change(day)
    day.terminal.troupe("stop", day.facts["own"], "--now")
    for step in (fork_and_compare, wrong_walk, report):
        step(day)

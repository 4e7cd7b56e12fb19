"""The first day of a new user runs from the first command to a shared report, with a mouse and with a keyboard alone."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.end_to_end.first_day import BY_KEYBOARD, STEPS, Day, code_of
from tests.end_to_end.hands import Keyboard, Mouse
from tests.end_to_end.running_stack import RunningStack
from tests.end_to_end.test_browser_stack import keep, login_link

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def day(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """A stack with its demonstration, which may run the code of a folder of its user, and a browser that is logged in."""
    running = RunningStack(TROUPE_DEMO="1", TROUPE_BASE_MODEL="1")
    running.environment = code_of(running.environment, tmp_path_factory.mktemp("code"))
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


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_step_of_the_day(step: Callable[[Day], None], day: Day) -> None:
    step(day)


@pytest.mark.extended
@pytest.mark.parametrize("step", BY_KEYBOARD, ids=lambda step: step.__name__)
def test_a_step_of_the_day_by_keyboard_alone(step: Callable[[Day], None], day: Day) -> None:
    day.hand = Keyboard(day.page)
    step(day)
    if step.__name__ == "own_change":
        day.terminal.troupe("stop", day.facts["own"], "--now")

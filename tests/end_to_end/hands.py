"""How a person acts on a page: with a mouse, or with a keyboard alone. Both count what the person does."""

import re

from playwright.sync_api import Locator, Page

MOST_STROKES = 1500
"""Tab strokes within which every control of a page is reached."""
FOCUSED = "element => element === document.activeElement || element.contains(document.activeElement)"
BEHIND = """element => document.activeElement !== document.body
  && Boolean(element.compareDocumentPosition(document.activeElement) & Node.DOCUMENT_POSITION_FOLLOWING)"""
"""Whether an element is before the focused one."""


class Mouse:
    """Clicks and types. `count` is the number of clicks, filled fields and pressed keys since `begin`."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    def begin(self) -> None:
        """Count from 0."""
        self.count = 0

    def click(self, target: Locator) -> None:
        """Press a button, or follow a link."""
        self.count += 1
        target.click()

    def fill(self, target: Locator, text: str) -> None:
        """Replace the text of a field."""
        self.count += 1
        target.fill(text)

    def press(self, keys: str) -> None:
        """Press a key, for example to submit the focused field."""
        self.count += 1
        self.page.keyboard.press(keys)


class Keyboard(Mouse):
    """The same by Tab, Enter and typing. Tab strokes are not counted: they correspond to movements of the mouse."""

    def click(self, target: Locator) -> None:
        """Move the focus to a button or link, and press Enter."""
        self.reach(target)
        self.press("Enter")

    def fill(self, target: Locator, text: str) -> None:
        """Move the focus to a field, and replace its text."""
        self.reach(target)
        self.count += 1
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def reach(self, target: Locator) -> None:
        """Press Tab, or Shift+Tab for an element before the focused one, until the element is focused."""
        target.wait_for()
        back = bool(target.evaluate(BEHIND))
        for _ in range(MOST_STROKES):
            if target.evaluate(FOCUSED):
                return
            self.page.keyboard.press("Shift+Tab" if back else "Tab")
        raise AssertionError(f"the keyboard does not reach {target}")


def shown_number(target: Locator) -> int:
    """The first number in the text of an element."""
    match = re.search(r"\d[\d,]*", target.inner_text())
    assert match, target.inner_text()
    return int(match[0].replace(",", ""))

"""Announcements of a page to screen readers: each text that appears in a live region."""

import time

from playwright.sync_api import Page

from tests.end_to_end.looks import live_regions

PATIENCE = 120.0
"""Seconds; nothing is asserted on them."""

LISTEN = """
(() => {
  const LIVE = ":is([aria-live], [role=status], [role=alert], [role=log], output):not([aria-live=off])";
  window.announcements = [];
  const watcher = new MutationObserver((changes) => {
    const regions = new Set();
    for (const { target, addedNodes, type } of changes) {
      const element = target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement;
      const inside = element?.closest(LIVE);
      if (inside && (addedNodes.length || type === "characterData")) regions.add(inside);
      for (const node of addedNodes) {
        if (node.nodeType !== Node.ELEMENT_NODE) continue;
        if (node.matches(LIVE)) regions.add(node);
        for (const region of node.querySelectorAll(LIVE)) regions.add(region);
      }
    }
    for (const region of regions) {
      const text = region.textContent.trim();
      if (text) window.announcements.push({ role: region.getAttribute("role"), text });
    }
  });
  const watch = (root) => watcher.observe(root, { subtree: true, childList: true, characterData: true });
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attach.call(this, options);
    watch(root);
    return root;
  };
  watch(document);
})();
"""


TOLD = """
([role, words]) => window.announcements?.find((one) => one.role === role && one.text.includes(words))?.text
"""


def listen(page: Page) -> None:
    """Record the announcements of every page that is opened from now on, as the page is parsed too."""
    page.add_init_script(LISTEN)


def announced(page: Page) -> list[str]:
    """Announcements since the page was opened or this was last called."""
    return list(page.evaluate("window.announcements.splice(0).map(({ text }) => text)"))


def heard(page: Page) -> list[tuple[str, str, str]]:
    """Live regions whose changes are announced: role, "polite" or "assertive", text."""
    return [(role, live, text) for role, live, _, text in live_regions(page) if live != "off"]


def wait_for(page: Page, role: str, words: str) -> str:
    """Wait until a region of this role contains the words; returns its text.

    A page that is listened to may have replaced the text meanwhile. What `announced` has returned does not count.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        if told := page.evaluate(TOLD, [role, words]):
            return str(told)
        regions = heard(page)
        for which, _, text in regions:
            if which == role and words in text:
                return text
        assert time.monotonic() < deadline, f"{words!r} is not announced: {regions}"
        page.wait_for_timeout(100)

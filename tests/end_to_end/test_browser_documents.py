"""The documentation in a browser: read, searched, copied; "?" explains in place."""

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.end_to_end.conftest import Server, run_told
from tests.end_to_end.looks import FIRST_CHANGE, look_at
from webapp.accounts.models import User
from webapp.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def run(ada: User) -> Run:
    made, _ = run_told(ada, iterations=12)
    return made


def test_a_reader_finds_follows_and_copies(page: Page, server: Server, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{server.url}/runs/")
    page.get_by_role("link", name="Documentation", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="Documentation")).to_be_visible()
    page.wait_for_load_state()
    page.keyboard.press("/")
    page.keyboard.type("damaged checkpoints")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Resume, and damaged checkpoints").click()
    expect(page.locator(":target")).to_contain_text("Resume, and damaged checkpoints")
    page.goto(f"{server.url}/docs/getting-started/")
    curl = page.locator(".code", has_text="curl -X POST")
    expect(curl).to_contain_text(server.url)
    button = curl.get_by_role("button", name="Copy")
    button.evaluate(FIRST_CHANGE)
    button.click()
    assert page.evaluate("window.changed") == "Copied"
    assert f"curl -X POST {server.url}/api/v1/runs/" in page.evaluate("navigator.clipboard.readText()")


@pytest.mark.extended
def test_terms_are_explained_in_place(page: Page, server: Server, run: Run) -> None:
    page.goto(f"{server.url}/runs/{run.pk}/")
    button = page.locator(".chart").get_by_role("button", name="What is Entropy by policy?")
    button.focus()
    page.keyboard.press("Enter")
    box = page.get_by_role("dialog", name="What is Entropy by policy?")
    expect(box).to_contain_text("Mean entropy of the sampled distributions")
    expect(button).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    expect(button).to_be_focused()
    page.get_by_role("heading", name="Entropy by policy").hover()
    expect(box).to_be_visible()
    page.get_by_role("heading", name="Curves").hover()
    expect(box).to_be_hidden()
    page.locator(".tile dt", has_text="Staleness").click()
    box = page.get_by_role("dialog", name="What is Staleness?")
    expect(box).to_contain_text("Mean number of updates")
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    box.get_by_role("link", name="Documentation").click()
    expect(page.locator("tr:target")).to_contain_text("rollout/staleness")


@pytest.mark.extended
def test_pages_are_readable_in_every_width(page: Page, server: Server, run: Run) -> None:
    pages = [
        (name.strip("/?") or "start", f"{server.url}/docs/{name}")
        for name in ("", "readme/", "metrics/", "api/", "?q=clip")
    ]
    look_at(
        page,
        "documents",
        [*pages, ("run", f"{server.url}/runs/{run.pk}/health/"), ("form", f"{server.url}/experiments/new/")],
    )

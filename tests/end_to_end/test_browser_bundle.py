"""The page of a bundle in a browser, opened from disk: curves, transcripts with boards, findings and configs, and no script of an agent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.conftest import Server, run_told, tell
from tests.end_to_end.looks import fits, shoot
from tests.end_to_end.seed import HOSTILE, hostile
from troupe_client import server_api
from troupe_client.bundles.writing import bundle_write, run_document
from webapp.accounts.models import User
from webapp.accounts.tokens import token_create
from webapp.health.models import Finding

pytestmark = pytest.mark.browser
SCHEME = "matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'"


@pytest.fixture
def file(server: Server, ada: User, tmp_path: Path) -> Path:
    """A bundle of two runs; one has a finding, and an episode whose texts are scripts."""
    first, story = run_told(ada, "first", "running", iterations=3)
    second, _ = run_told(ada, "second </script><b>", "running", iterations=2, seed=1)
    for step in (1, 3):
        tell(first, story.media(step))
    tell(first, hostile(story.training_episode(4, 0)))
    Finding.objects.create(
        run=first, rule="entropy_collapse", key="policy/planner/entropy", severity="warning", title="Entropy collapses",
        first_step=1, last_step=2,
    )  # fmt: skip
    connection = server_api.Server(server.url, token_create(ada, "bundle", ["read"])[1])
    path = tmp_path / "bundle.html"
    bundle_write([run_document(connection, run.pk) for run in (first, second)], path)
    return path


@pytest.fixture(params=["light", "dark"])
def opened(request: pytest.FixtureRequest, browser: Browser, file: Path) -> Iterator[Page]:
    """The page, offline; a message of the console, or a request for anything but the file, fails the test."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme=request.param, offline=True
    )
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda sent: sent.url.startswith(("file:", "data:", "blob:")) or complaints.append(sent.url),
    )
    page.goto(file.as_uri())
    yield page
    context.close()
    assert not complaints, complaints


def test_a_bundle_opens_without_a_server(opened: Page) -> None:
    expect(opened.get_by_role("heading", level=1)).to_have_text("first, second </script><b>")
    curves = opened.get_by_role("region", name="Curves")
    expect(curves.locator("article").first).to_contain_text("eval/success")
    expect(curves.locator("article").first.locator(".scatterlayer .trace")).to_have_count(2)
    curves.get_by_role("searchbox").fill("train/ret")
    expect(curves.locator("article:visible")).to_have_count(1)

    curves.get_by_role("searchbox").fill("")
    expect(curves.locator("article .main-svg").nth(6)).to_be_attached()
    shoot(opened, f"bundle-curves-{opened.evaluate(SCHEME)}")

    media = opened.get_by_role("region", name="Media")
    media.get_by_role("searchbox").fill("sample")
    expect(media.get_by_role("img")).to_have_count(2)
    assert media.get_by_role("img").first.evaluate("image => image.naturalWidth") == 2
    media.get_by_role("searchbox").fill("")
    notes = media.get_by_role("slider", name="Step of note")
    expect(media.locator("pre")).to_have_text(f"Said at 3: {HOSTILE}")
    notes.fill("0")
    expect(media.locator("pre")).to_have_text(f"Said at 1: {HOSTILE}")
    media.scroll_into_view_if_needed()
    shoot(opened, f"bundle-media-{opened.evaluate(SCHEME)}")

    transcripts = opened.get_by_role("region", name="Transcripts")
    everything = int(transcripts.get_by_role("status").inner_text().split()[0])
    transcripts.get_by_role("searchbox").fill("window.hacked")
    expect(transcripts.get_by_role("status")).to_have_text(f"1 of {everything} episodes")
    transcripts.get_by_role("listitem").get_by_role("button").click()
    reader = transcripts.locator(".bundle-reader")
    expect(reader.locator(".bundle-answer.executed .words").first).to_have_text(HOSTILE)
    assert reader.locator("img, script").count() == 0 and opened.evaluate("window.hacked") is None

    transcripts.get_by_role("searchbox").fill("goal turns")
    transcripts.get_by_role("listitem").get_by_role("button").first.click()
    expect(reader.locator("svg.board").first).to_be_visible()
    shoot(opened, f"bundle-{opened.evaluate(SCHEME)}")
    expect(opened.get_by_role("region", name="Findings")).to_contain_text("Entropy collapses")
    opened.get_by_role("region", name="Config").locator("summary").first.click()
    expect(opened.get_by_role("region", name="Config").locator("pre").first).to_contain_text('"plan_path"')
    fits(opened)


def test_nothing_is_wider_than_a_phone(browser: Browser, file: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(file.as_uri())
    page.get_by_role("region", name="Transcripts").get_by_role("listitem").get_by_role("button").first.click()
    expect(page.locator(".bundle-reader h3")).to_be_visible()
    shoot(page, "bundle-narrow")
    fits(page)
    page.close()

"""The overview of a custom program in the browser: it grows with what arrives, and its headline metrics are chosen in a dialog."""

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import Server, tell
from tests.end_to_end.seed import Story, encoded
from troupe_client.documents.launches import ClientRunBody
from webapp.accounts.models import Project, User
from webapp.scheduling.client_runs import client_run_begin

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_an_overview_grows_and_follows_a_choice(page: Page, server: Server, ada: User) -> None:
    run, _ = client_run_begin(
        ada, Project.objects.get(slug="lab"), ClientRunBody(id="23456789", name="resnet")
    )
    story = Story(run.pk)
    page.goto(f"{server.url}/runs/{run.pk}/")
    expect(page.get_by_role("heading", name="No numbers yet")).to_be_visible()
    tell(run, encoded(iter([story.event("metrics", step=1, values={"loss": 2.0, "speed": 7.0})])))
    expect(page.locator(".tile dt")).to_have_text(["loss"])
    expect(page.locator(".chart h3")).to_have_text(["loss", "speed"])
    page.locator("#chart-headline-loss").evaluate("chart => { window.kept = chart }")
    tell(run, encoded(iter([story.event("metrics", step=2, values={"loss": 1.0, "accuracy": 0.5})])))
    expect(page.locator(".chart h3")).to_have_text(["loss", "accuracy", "speed"])
    expect(page.locator(".tile", has_text="loss").locator(".under")).to_have_text("−1.00 since start")
    assert page.evaluate("document.getElementById('chart-headline-loss') === window.kept")

    page.get_by_role("button", name="Headline").click()
    page.keyboard.type("speed")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Headline metrics").get_by_role("button", name="Save").click()
    expect(page.locator(".tile dt")).to_have_text(["speed"])
    expect(page.locator(".chart h3")).to_have_text(["speed", "loss", "accuracy"])

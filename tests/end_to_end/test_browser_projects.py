"""A project's pages, a shared run and the Django admin in a real browser."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.conftest import Server, run_make, tell
from tests.end_to_end.looks import violations
from tests.end_to_end.seed import Story, encoded
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.notifications.delivery import delivery_now
from webapp.notifications.models import Delivery
from webapp.notifications.services import destination_make, destination_ping
from webapp.quotas.services import quota_set
from webapp.runs.models import Run
from webapp.shares.services import share_make, share_path, share_revoke

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
BASE = "/account/projects/lab"
PARTS = ("members", "tokens", "shares", "quotas", "webhooks", "audit")


@pytest.fixture
def lab(ada: User) -> Project:
    """A project with something under every tab."""
    project = Project.objects.get(slug="lab")
    eve = User.objects.create_user("eve")
    Membership.objects.create(project=project, user=eve, level="editor")
    token_create(ada, "laptop", ["read", "launch"])
    token_create(eve, "notebook on the cluster", ["read"])
    return project


@pytest.fixture
def story(lab: Project, ada: User) -> Story:
    """What a run tells that trains."""
    return Story(run_make(ada, "planner and executor", "running").pk)


@pytest.fixture
def told(story: Story) -> Run:
    """That run."""
    run = Run.objects.get(pk=story.run)
    tell(run, encoded(story.opening()))
    tell(run, encoded(story.iterations(0, 24, whole=2)))
    return run


@pytest.fixture
def guest(browser: Browser, server: Server) -> Iterator[Page]:
    """A browser without a login."""
    opened = browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(120_000)
    complaints: list[str] = []
    page = opened.new_page()
    page.on(
        "console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    opened.close()
    assert not complaints, complaints


def look(page: Page, name: str, height: int = 900) -> list[Any]:
    """Faults of the open page in both schemes and at both widths; pictures where they are asked for."""
    faults: list[Any] = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": height})
            for _ in range(600):  # charts follow a little later
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide <= width:
                    break
                page.wait_for_timeout(100)
            else:
                faults.append(f"{name} is {wide} px wide at {width}")
            if folder := os.environ.get("TROUPE_SHOTS"):
                page.screenshot(path=str(Path(folder) / f"{name}-{width}-{scheme}.png"), full_page=True)
        faults += violations(page)
    return faults


@pytest.mark.extended
def test_the_tabs_of_a_project(page: Page, ada: User, lab: Project, told: Run) -> None:
    quota_set(ada, lab, {"runs": 1, "points": 1000, "gigabytes": 2})
    share_make(ada, lab, "run", told.pk, "for the review")
    share_revoke(ada, share_make(ada, lab, "run", told.pk, "the first draft")[0])
    hook, _ = destination_make(
        ada, lab, "webhook", "chat", "https://chat.example.org/hooks/1", ["run.failed", "finding.opened"]
    )
    delivery = destination_ping(ada, hook)
    Delivery.objects.filter(pk=delivery.pk).update(left=1)
    delivery_now(delivery.pk)
    page.goto(f"{BASE}/members/")
    for part in PARTS:
        page.locator(f".tabs a[href='{BASE}/{part}/']").click()
        expect(page.locator(".tabs [aria-current=page]")).to_have_attribute("href", f"{BASE}/{part}/")
        assert not look(page, f"project-{part}")
    page.goto(f"{BASE}/webhooks/{hook.pk}/")
    expect(page.locator("main")).to_contain_text("given up")
    page.get_by_role("button", name="Send ping again").click()
    expect(page.locator("main")).to_contain_text("waiting")
    assert not look(page, "project-webhook")


def test_a_run_is_shared_and_watched_without_a_login(
    page: Page, guest: Page, ada: User, told: Run, story: Story
) -> None:
    page.set_default_timeout(120_000)
    page.goto(f"/runs/{told.pk}/")
    page.get_by_role("link", name="Share", exact=True).click()
    page.get_by_label("Name").fill("for the review")
    page.get_by_role("button", name="Create").click()
    link = page.locator("#new-link").inner_text()
    assert not look(page, "share-made")

    guest.goto(link)
    expect(guest).to_have_url(f"{link.partition('/shared/')[0]}/runs/{told.pk}/")
    expect(guest.locator(".guest-bar")).to_contain_text("read-only")
    expect(guest.locator("[data-link]")).to_have_text("live")
    expect(guest.locator(".tabs a")).to_have_count(3)
    tell(told, encoded(story.iterations(24, 26, whole=1)))
    expect(guest.locator("[data-iteration]")).to_contain_text("26 of")
    assert not look(guest, "shared-run")
    guest.get_by_role("link", name="Curves").click()
    expect(guest.locator(".js-plotly-plot").first).to_be_visible()
    assert not look(guest, "shared-curves")
    guest.locator(".tabs a", has_text="Transcripts").click()
    guest.locator("a.row-link").first.click()
    expect(guest.locator("#episode-title")).to_be_visible()
    assert not look(guest, "shared-episode")
    guest.goto(f"/runs/{told.pk}/logs/")
    expect(guest.locator("h1")).to_have_text("Log in")

    share_revoke(ada, told.project.share_links.get())
    guest.goto(f"/runs/{told.pk}/")
    expect(guest.locator("h1")).to_have_text("Log in")


@pytest.mark.extended
def test_a_link_that_ended(guest: Page, ada: User, told: Run) -> None:
    share, secret = share_make(ada, told.project, "run", told.pk)
    share_revoke(ada, share)
    answer = guest.request.get(share_path(secret))
    assert answer.status == 410
    guest.set_content(answer.text())
    expect(guest.locator("h1")).to_have_text("This link does not work")


@pytest.mark.extended
def test_the_admin_opens_under_the_content_security_policy(page: Page, ada: User, told: Run) -> None:
    User.objects.filter(pk=ada.pk).update(is_superuser=True)
    page.goto("/runs/")
    page.get_by_role("link", name="Administration").click()
    expect(page.locator("h1").first).to_contain_text("Stored objects")
    page.goto("/admin/runs/run/?q=planner")
    page.get_by_role("link", name=told.pk).click()
    expect(page.locator("#content")).to_contain_text("plan_path_duo")
    page.goto("/admin/quotas/quota/add/")
    page.locator("#id_project").select_option(label="Path finding")
    page.locator("#id_runs").fill("2")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".success")).to_be_visible()

"""A project's pages, a shared run and the Django admin in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.conftest import Server, run_make, tell
from tests.end_to_end.looks import look_at, violations
from tests.end_to_end.seed import Story
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.runs.models import Run
from webapp.shares.services import share_revoke

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


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
    tell(run, story.opening())
    tell(run, story.iterations(0, 24, whole=2))
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


def test_a_run_is_shared_and_watched_without_a_login(
    page: Page, guest: Page, ada: User, told: Run, story: Story
) -> None:
    page.set_default_timeout(120_000)
    page.goto(f"/runs/{told.pk}/")
    page.get_by_role("link", name="Share", exact=True).click()
    page.get_by_label("Name").fill("for the review")
    page.get_by_role("button", name="Create").click()
    link = page.locator("#new-link").inner_text()
    assert not violations(page)

    guest.goto(link)
    expect(guest).to_have_url(f"{link.partition('/shared/')[0]}/runs/{told.pk}/")
    expect(guest.locator(".guest-bar")).to_contain_text("read-only")
    expect(guest.locator("[data-link]")).to_have_text("live")
    expect(guest.locator(".tabs a")).to_have_count(3)
    tell(told, story.iterations(24, 26, whole=1))
    expect(guest.locator("[data-iteration]")).to_contain_text("26 of")
    guest.get_by_role("link", name="Curves").click()
    expect(guest.locator(".js-plotly-plot").first).to_be_visible()
    guest.locator(".tabs a", has_text="Transcripts").click()
    guest.locator("a.row-link").first.click()
    expect(guest.locator("#episode-title")).to_be_visible()
    pages = [("run", f"/runs/{told.pk}/"), ("curves", f"/runs/{told.pk}/curves/"), ("episode", guest.url)]
    look_at(guest, "shared", pages)
    guest.goto(f"/runs/{told.pk}/logs/")
    expect(guest.locator("h1")).to_have_text("Log in")

    share_revoke(ada, told.project.share_links.get())
    guest.goto(f"/runs/{told.pk}/")
    expect(guest.locator("h1")).to_have_text("Log in")


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

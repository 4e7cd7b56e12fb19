"""The health page in a real browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_told, tell
from tests.end_to_end.seed import Story
from webapp.accounts.models import User
from webapp.health.models import Finding
from webapp.health.services import counts_keep, run_check
from webapp.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
Telling = tuple[Run, Story]


@pytest.fixture
def telling(ada: User) -> Telling:
    """A run after 24 iterations, with a NaN at the 17th."""
    run, story = run_told(ada, iterations=24, ago=30)
    return run, story


def ill(run: Run, story: Story) -> None:
    """Some iterations with a KL that has blown up and groups that teach nothing."""
    values = {"policy/planner/kl": 30.0, "groups/planner/too_easy": 0.995, "rollout/truncated": 0.31}
    values |= {"train/success": 0.5, "eval/success": 0.5}  # solved tasks may be easy
    tell(run, (story.event("metrics", step=step, values=values) for step in range(25, 31)))


def test_findings_come_in_while_the_page_is_looked_at(page: Page, telling: Telling) -> None:
    run, story = telling
    page.goto(f"/runs/{run.pk}/health/")
    expect(page.locator("[data-link]")).to_have_text("live")
    expect(page.locator("main")).to_contain_text("No findings.")
    ill(run, story)
    run_check(run.pk)
    finding = page.locator('[data-finding="kl_blow_up"]')
    expect(finding).to_contain_text("planner is far from its base model")
    expect(finding).to_contain_text("Likely cause")
    expect(page.locator('.tabs a[aria-current="page"]')).to_contain_text("4")
    finding.get_by_role("button", name="Dismiss").click()
    past = page.locator(".past .finding")
    expect(past).to_contain_text("dismissed")
    expect(page.locator('.tabs a[aria-current="page"]')).to_contain_text("3")
    past.get_by_role("button", name="Reopen").click()
    expect(page.locator(".past")).to_have_count(0)
    page.locator('[data-finding="kl_blow_up"]').get_by_role("link", name="policy/planner/kl").click()
    expect(page.locator(".chart:visible")).to_have_count(1)
    expect(page.locator(".chart:visible")).to_contain_text("kl")
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator('[data-region="health"]')).to_contain_text("planner is far from its base model")
    page.goto("/runs/")
    page.locator("a.badge.bad", has_text="1 critical").click()
    expect(page.locator("#open-title")).to_be_visible()


@pytest.mark.extended
def test_badges_come_and_go_without_a_reload(page: Page, telling: Telling) -> None:
    run, story = telling
    run_check(run.pk)  # the NaN
    table, overview = page, page.context.new_page()
    table.goto("/runs/")
    overview.goto(f"/runs/{run.pk}/")
    badges = (
        table.locator(f'[data-run="{run.pk}"] [data-findings]'),
        overview.locator(".page-head [data-findings]"),
    )
    for badge, opened in zip(badges, (table, overview), strict=True):
        expect(opened.locator("[data-link]")).to_have_text("live")
        expect(badge).to_have_text("1 warning")
        opened.evaluate("window.loadedOnce = true")
        badge.locator("a").evaluate("link => { link.marked = true }")
    tell(run, story.iterations(25, 26))
    expect(table.locator(f'[data-run="{run.pk}"] [data-iteration]')).to_contain_text("26 of")
    expect(overview.locator("[data-iteration]").first).to_contain_text("26")
    for badge in badges:
        assert badge.locator("a").evaluate("link => link.marked"), "an update leaves an equal link as it is"
    ill(run, story)
    run_check(run.pk)
    for badge in badges:
        expect(badge.locator(".badge.bad")).to_have_text("1 critical, 3 warnings")
    Finding.objects.exclude(severity="critical").update(state="dismissed")
    counts_keep(run)
    for badge, opened in zip(badges, (table, overview), strict=True):
        expect(badge).to_have_text("1 critical")
        assert opened.evaluate("window.loadedOnce"), "the page was not loaded again"
    badges[1].get_by_role("link", name="1 critical").click()
    expect(overview.locator("#open-title")).to_be_visible()
    overview.close()

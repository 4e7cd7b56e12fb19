"""The health page in a real browser."""

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.looks import look_at, violations
from tests.end_to_end.seed import Story, encoded
from training_core.checkpoints import writing
from webapp.accounts.models import User
from webapp.checkpoints.models import Checkpoint
from webapp.health.models import Finding
from webapp.health.services import counts_keep, run_check
from webapp.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
Telling = tuple[Run, Story]


@pytest.fixture
def telling(ada: User) -> Telling:
    """A run after 24 iterations, with a NaN at the 17th."""
    run = run_make(ada)
    story = Story(run.pk, start=time.time() - 30)
    tell(run, encoded(story.opening()))
    tell(run, encoded(story.iterations(0, 24)))
    return run, story


def ill(run: Run, story: Story) -> None:
    """Some iterations with a KL that has blown up and groups that teach nothing."""
    values = {"policy/planner/kl": 30.0, "groups/planner/too_easy": 0.995, "rollout/truncated": 0.31}
    values |= {"train/success": 0.5, "eval/success": 0.5}  # solved tasks may be easy
    tell(run, encoded(story.event("metrics", step=step, values=values) for step in range(25, 31)))


def shoot(page: Page, name: str) -> None:
    """A picture to look at, where TROUPE_SHOTS names a folder."""
    if folder := os.environ.get("TROUPE_SHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


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
    page.locator('[data-finding="kl_blow_up"] a').click()
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
    tell(run, encoded(story.iterations(25, 26)))
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


@pytest.mark.extended
def test_a_finding_forks_the_run_once(page: Page, telling: Telling, settings: Any) -> None:
    run, story = telling
    path = "checkpoints/iteration-000020"
    with writing(settings.TROUPE_HOME / "runs" / run.pk / "checkpoints", 20, {}) as draft:
        (draft / "planner").mkdir()
    Checkpoint.objects.filter(run=run).update(path=path)
    edit = "policies.planner.learner.learning_rate=5e-5"
    run.config["health"] |= {"kl_blow_up": {"fork_edits": [edit]}}
    Run.objects.filter(pk=run.pk).update(config=run.config)
    ill(run, story)
    run_check(run.pk)
    page.goto(f"/runs/{run.pk}/health/")
    finding = page.locator('[data-finding="kl_blow_up"]')
    button = finding.get_by_role("button", name="Fork")
    expect(button).to_have_attribute("title", re.compile(f"last checkpoint before step 26, under {edit}"))
    button.click()
    expect(page).to_have_url(re.compile(r"/runs/\w+/$"))
    fork = Run.objects.get(parent=run)
    assert page.url.endswith(f"/runs/{fork.pk}/")
    expect(page.locator('[data-region="lineage"]')).to_contain_text("from iteration 20, for kl_blow_up")
    assert fork.config["policies"]["planner"]["learner"]["learning_rate"] == 5e-5
    page.get_by_role("link", name="kl_blow_up").click()
    expect(finding).to_contain_text(f"Forked as{fork.pk}")
    expect(button).to_have_count(0)
    too_easy = page.locator('[data-finding="too_easy"]')
    too_easy.get_by_role("button", name="Fork").click()
    expect(page.locator("main")).to_contain_text(
        "iteration 20, with the config below: weights, optimizer state"
    )
    look_at(page, "experiment", [("fork", page.url)])


@pytest.mark.extended
def test_channels_are_added_and_removed_without_showing_their_address(page: Page, telling: Telling) -> None:
    run, _ = telling
    page.goto(f"/runs/{run.pk}/health/")
    page.get_by_role("link", name="Notifications of this project").click()
    page.get_by_label("Kind").select_option("channel")
    page.get_by_label("Name").fill("our chat")
    page.get_by_label("Address").fill("json://ada:hush-hush@hooks.example.org/hook")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("table")).to_contain_text("our chat")
    assert "hush-hush" not in page.content()
    page.get_by_role("link", name="our chat").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.locator("main")).to_contain_text("No destinations yet.")


@pytest.mark.extended
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_has_no_serious_fault(page: Page, telling: Telling, scheme: str) -> None:
    run, story = telling
    ill(run, story)
    run_check(run.pk)
    Finding.objects.filter(rule="truncation").update(state="dismissed")
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(f"/runs/{run.pk}/health/")
    expect(page.locator("[data-link]")).to_have_text("live")
    for width, height in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        shoot(page, f"health-{scheme}-{width}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []

"""The form for a team of three, and resource profiles, in a real browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.test_browser_create import fits, shoot
from webapp.accounts.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_team_of_three_and_a_profile(page: Page, ada: User) -> None:
    page.goto("/experiments/new/?preset=plan_path_trio")
    picture = page.locator("#team-picture svg")
    expect(picture).to_contain_text("speaks 1st")
    expect(picture.locator("g.role")).to_have_count(3)
    expect(page.get_by_label("parallel", exact=False).first).to_have_value("planner, scout")
    page.locator("details[data-section=team] > summary").click()
    page.locator("details[data-section=resources] > summary").click()
    fits(page)
    shoot(page, "team-of-three")
    page.get_by_role("button", name="minimal").click()
    workers = page.locator("[name='resources.environment_workers']")
    expect(workers).to_have_value("8")
    expect(page.locator("[name='policies.scout.devices.rollout_gpus']")).to_have_value("0.5")
    assert "environment_workers=8" in page.url
    fits(page)
    shoot(page, "team-profile")

"""The form for a team of three, and resource profiles, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.test_browser_create import fits, shoot
from webapp.accounts.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.extended]


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


def test_a_role_is_renamed_by_keyboard(page: Page, ada: User) -> None:
    page.goto("/experiments/new/?preset=arithmetic")
    expect(page.locator("#preview")).to_contain_text("Ready to launch")
    page.locator("#rename-reasoner").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("New name of the role reasoner")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("tool")
    page.keyboard.press("Enter")
    expect(page.locator("#rename-refused-reasoner")).to_have_text("tool already exists")
    fits(page)
    shoot(page, "team-rename-refused")
    field = page.get_by_label("New name of the role reasoner")
    expect(field).to_be_focused()
    expect(field).to_have_value("tool")
    field.fill("critic")
    page.keyboard.press("Enter")
    expect(page.locator("#rename-critic")).to_be_focused()
    expect(page.locator("#team-picture svg")).to_contain_text("critic")
    expect(page.locator("#preview")).to_contain_text("Ready to launch")
    expect(page).to_have_url(re.compile("team.roles"))
    page.locator("#rename-critic").press("Enter")
    fits(page)
    shoot(page, "team-rename")

"""Curves in a real browser: marks of events, and everything that the page can do with a chart."""

import os
import time
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.seed import Story, encoded
from webapp.accounts.models import User
from webapp.health.models import Finding
from webapp.runs.models import Attempt, Run, RunNote

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
Telling = tuple[Run, Story]


@pytest.fixture
def telling(ada: User) -> Telling:
    """A run after 44 iterations in two attempts, with a checkpoint, an edit, a finding and a note."""
    run = run_make(ada)
    first = Story(run.pk, start=time.time() - 90)
    tell(run, encoded(first.opening()))
    tell(run, encoded(first.iterations(0, 32)))
    run.attempts.update(state="ended", ended_as="lost")
    Attempt.objects.create(
        run=run, number=2, state="live", submission_id=f"{run.pk}-2", resumed_from="iteration-000020",
        changes={"algorithm.clip_low": 0.1},
    )  # fmt: skip
    second = Story(run.pk, attempt=2, start=time.time() - 30)
    tell(run, encoded(second.opening()))
    tell(run, encoded(second.iterations(20, 44)))
    Finding.objects.create(
        run=run, rule="kl_blow_up", key="policy/planner/kl", severity="bad", title="planner <i>ran</i> away",
        first_step=9, last_step=12, evidence={},
    )  # fmt: skip
    RunNote.objects.create(run=run, author=ada, step=30, text="<b>odd</b> jump here")
    return run, second


def shoot(page: Page, name: str) -> None:
    """A picture to look at, where TROUPE_SHOTS names a folder."""
    if folder := os.environ.get("TROUPE_SHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def signs(page: Page, chart: str) -> list[str]:
    """What stands at the top of a chart, from left to right."""
    expect(page.locator(f"#chart-{chart} .scatterlayer .trace")).not_to_have_count(0)
    script = "id => (document.querySelector(`#chart-${id} .plot`).layout.annotations ?? []).map((each) => [each.x, each.text])"
    return [text for _, text in sorted(page.evaluate(script, chart))]


def test_events_are_marked_on_every_chart_and_hidden_by_the_address(page: Page, telling: Telling) -> None:
    run, _ = telling
    for address, chart in ((f"/runs/{run.pk}/", "return"), (f"/runs/{run.pk}/curves/", "policy-entropy")):
        page.goto(address)
        assert sorted(signs(page, chart)) == sorted("!↻✎¶◆")
    page.get_by_text("Marks", exact=True).click()
    expect(page.locator('[data-mark-count="note"]')).to_have_text("1")
    page.get_by_role("checkbox", name="Findings").uncheck()
    page.get_by_role("checkbox", name="Checkpoints").uncheck()
    page.wait_for_function(
        "document.querySelector('#chart-policy-entropy .plot').layout.annotations.length === 3"
    )
    assert page.url.endswith("?hide=checkpoint%2Cfinding")
    page.reload()
    assert sorted(signs(page, "policy-entropy")) == sorted("↻✎¶")
    expect(page.get_by_role("checkbox", name="Findings", include_hidden=True)).not_to_be_checked()


def test_a_note_is_written_by_keyboard_and_stays_text(page: Page, telling: Telling) -> None:
    run, _ = telling
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.keyboard.press("n")
    page.get_by_label("Note", exact=True).fill("<img src=x onerror=window.hacked=1>")
    expect(page.get_by_label("At step")).to_have_value("44")
    page.get_by_label("At step").fill("12")
    page.get_by_role("button", name="Save").click()
    note = RunNote.objects.get(step=12)
    expect(page.locator(f"#note-{note.pk}")).to_contain_text("<img src=x onerror=window.hacked=1>")
    assert signs(page, "return").count("¶") == 2
    assert page.evaluate("window.hacked") is None
    page.locator(f"#note-{note.pk}").get_by_role("button").click()
    expect(page.locator(f"#note-{note.pk}")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_have_no_serious_fault(page: Page, telling: Telling, scheme: str) -> None:
    run, _ = telling
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    for name, address in (("overview", f"/runs/{run.pk}/"), ("curves", f"/runs/{run.pk}/curves/")):
        page.goto(address)
        expect(page.locator("[data-link]")).to_have_text("live")
        for width, height in ((1440, 900), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            expect(page.locator(".chart .scatterlayer .trace").first).to_be_attached()
            page.wait_for_timeout(600)
            shoot(page, f"{name}-{scheme}-{width}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_text("Marks", exact=True).click()
        violations = Axe().run(page).response["violations"]
        faults = [each["id"] for each in violations if each["impact"] in ("serious", "critical")]
        assert not faults, [node["html"] for each in violations for node in each["nodes"]][:5]

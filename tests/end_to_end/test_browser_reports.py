"""Reports in a browser: written, saved by itself, never lost, shared."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.end_to_end.conftest import Server, tell
from tests.end_to_end.seed import Story
from tests.end_to_end.test_browser_compare import address, runs
from webapp.accounts.models import Project, User
from webapp.reports.models import Report
from webapp.reports.services import report_create, report_save
from webapp.runs.models import Run
from webapp.transcripts.models import Episode

__all__ = ["runs"]  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def body(made: list[Run]) -> str:
    """Text, a chart, figures, a transcript."""
    ids, episode = (
        ",".join(run.pk for run in made),
        Episode.objects.filter(run=made[0], kind="eval").latest("pk"),
    )
    return f"""Groups of **eight** learn faster than groups of four; see the curve.

```chart
runs: {ids}
key: train/return
smooth: 0.5
```

| setting | verdict |
|---|---|
| 4 | slow |
| 8 | quick |

```figures
runs: {ids}
key: eval/success
```

## What they say

> The planner learns to point.

```transcript
episode: {episode.pk}
turns: 1-2
```
"""


@pytest.fixture
def report(ada: User, runs: list[Run]) -> Report:
    return report_create(ada, Project.objects.get(slug="lab"), "Group size", body(runs))


def test_a_comparison_becomes_a_report_that_saves_itself(page: Page, runs: list[Run]) -> None:
    page.goto(address(runs))
    page.get_by_role("button", name="Write a report").click()
    expect(page).to_have_url(re.compile(r"/reports/\d+/edit/"))
    preview = page.get_by_label("Preview")
    expect(preview.locator(".js-plotly-plot")).to_be_visible()
    text = page.get_by_label("Text, in Markdown")
    text.press("Control+End")
    text.press_sequentially("# <img src=x onerror=window.hacked=1> learnt")
    expect(preview.get_by_role("heading", name="learnt")).to_be_visible()
    expect(page.get_by_text("saved, version 2")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert Report.objects.get().text.endswith("window.hacked=1> learnt")
    page.get_by_role("button", name="Save and read").click()
    expect(page.locator(".report .js-plotly-plot")).to_be_visible()
    expect(page.locator(".report h2")).to_contain_text("<img src=x")
    chart = page.locator(".report .compared").first
    chart.get_by_role("button", name="Save").click()
    with page.expect_download() as picture:
        chart.get_by_role("button", name="SVG").click()
    assert picture.value.suggested_filename.startswith("report-")
    assert b"<svg" in Path(picture.value.path()).read_bytes()
    chart.get_by_role("button", name="Save").click()
    with page.expect_download() as table:
        chart.get_by_role("link", name="CSV").click()
    assert Path(table.value.path()).read_text().startswith("group,step,mean")


@pytest.mark.extended
def test_nothing_is_lost_without_a_server_or_beside_another_writer(
    context: BrowserContext, ada: User, report: Report
) -> None:
    context.set_default_timeout(120_000)
    page = context.new_page()  # of the failures that are made here the browser complains
    page.goto(f"/reports/{report.pk}/edit/")
    text = page.get_by_label("Text, in Markdown")
    page.route("**/api/v1/reports/**", lambda route: route.abort())
    text.fill("while the server was away")
    expect(page.get_by_text("stored in this browser")).to_be_visible()
    page.get_by_role("button", name="Save and read").click()
    expect(page.get_by_text("stored in this browser")).to_be_visible()
    expect(text).to_have_value("while the server was away")
    page.unroute("**/api/v1/reports/**")
    page.on("dialog", lambda dialog: dialog.accept())
    report_save(ada, report, "Group size", "another writer's", 1)
    page.reload()
    expect(text).to_have_value("while the server was away")
    expect(page.get_by_text("Another person has saved this report in the meantime")).to_be_visible()
    report.refresh_from_db()
    assert report.text == "another writer's"
    assert report.versions.filter(kind="conflict", text="while the server was away").exists()
    page.get_by_role("button", name="Use their text").click()
    expect(text).to_have_value("another writer's")
    page.get_by_label("Title").fill("Again")
    expect(page.get_by_text(re.compile("saved, version"))).to_be_visible()
    report.refresh_from_db()
    assert (report.title, report.text) == ("Again", "another writer's")


@pytest.mark.extended
def test_a_guest_reads_what_was_shared(
    page: Page, browser: Browser, server: Server, report: Report, runs: list[Run]
) -> None:
    text = f"{report.text}\n\n[the first run](/runs/{runs[0].pk}/)"
    report_save(runs[0].owner, report, report.title, text, report.revision)
    page.goto(f"/reports/{report.pk}/")
    page.get_by_role("button", name="Share").click()
    link = page.locator("#new-link").text_content() or ""
    guest = browser.new_page(base_url=server.url)
    guest.set_default_timeout(120_000)
    complaints: list[str] = []
    guest.on("pageerror", lambda error: complaints.append(str(error)))
    guest.clock.install()
    guest.goto(link)
    expect(guest.get_by_role("heading", name="Group size")).to_be_visible()
    expect(guest.locator(".report .js-plotly-plot")).to_be_visible()
    expect(guest.get_by_role("link", name="Edit")).to_have_count(0)
    expect(guest.locator(".report")).to_contain_text("the first run")
    expect(guest.get_by_role("link", name="the first run")).to_have_count(0)
    values = {"train/return": 0.5, "eval/success": 0.5}
    event = Story(runs[0].pk).event("metrics", step=91, values=values) | {"producer": "another"}
    tell(runs[0], [event])
    guest.clock.run_for(16_000)  # runs of the report are active: it is read again
    expect(guest.get_by_label("Figures of eval/success")).to_contain_text("91")
    drawn = "() => document.querySelector('.js-plotly-plot').data.some(({ x }) => x.includes(91))"
    guest.wait_for_function(drawn)
    assert not complaints, complaints
    guest.close()

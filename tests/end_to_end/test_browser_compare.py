"""Runs side by side in a browser."""

import re
import time

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.end_to_end.conftest import Server, run_make, signed_in, tell
from tests.end_to_end.seed import Story
from webapp.accounts.models import User
from webapp.runs.configs import family_of
from webapp.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def runs(ada: User) -> list[Run]:
    """Two settings under two seeds each; the last run has come half as far."""
    made = []
    for place in range(4):
        run = run_make(ada, state="running")
        run.config["run"]["seed"] = place % 2
        run.config["rollout"]["group_size"] = 4 if place < 2 else 8
        run.family = family_of(run.config)
        run.save()
        story = Story(run.pk, seed=place, start=time.time() - 300)
        tell(run, story.opening())
        tell(run, story.iterations(0, 10 if place == 3 else 20, whole=0, evaluate=5))
        made.append(run)
    return made


def address(runs: list[Run], part: str = "", **query: str) -> str:
    said = "&".join(f"{name}={value}" for name, value in query.items())
    return f"/compare/{part}?runs={','.join(run.pk for run in runs)}&{said}"


def test_from_the_table_to_curves_of_groups(page: Page, runs: list[Run]) -> None:
    page.goto("/runs/")
    page.get_by_label("Select all runs of this page").check()
    page.get_by_role("button", name="Compare").click()
    expect(page).to_have_url(re.compile(r"/compare/\?runs=\w{8},"))
    legend = page.locator("[data-legend] li")
    expect(legend).to_have_count(2)
    expect(legend.first).to_contain_text("N 2")
    assert {"group_size 4", "group_size 8"} == {
        found[0] for text in legend.all_text_contents() if (found := re.search(r"group_size \d", text))
    }
    expect(page.locator(".js-plotly-plot .scatterlayer .trace").first).to_be_attached()
    expect(page.get_by_role("cell", name="5 … 15")).to_be_visible()
    page.get_by_role("button", name="Save eval/success").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="CSV").click()
    assert saved.value.path().read_text().startswith("group,step,mean,low,high,n")
    page.get_by_label("Value").select_option("common")
    expect(page.get_by_role("cell", name="5", exact=True).first).to_be_visible()
    expect(page.locator(".matrix tbody tr")).to_have_count(2)
    page.wait_for_load_state()
    page.get_by_label("Group by").select_option("run.seed")
    expect(page).to_have_url(re.compile("by=run.seed"))
    expect(legend).to_have_count(2)
    page.get_by_label("Metrics, up to six").fill("eval/success,train/return")
    page.get_by_label("Metrics, up to six").press("Enter")
    expect(page.locator(".compared")).to_have_count(2)
    page.get_by_role("link", name=re.compile("^Remove ")).first.click()
    expect(page.locator(".page-head .badge")).to_have_text("3 runs")
    expect(page).to_have_url(re.compile(r"by=run.seed.*at=common"))


@pytest.mark.extended
def test_what_comes_in_is_drawn(
    browser: Browser, context: BrowserContext, server: Server, runs: list[Run]
) -> None:
    page = signed_in(browser, context, server)  # a clock that is installed stays in its profile
    page.clock.install()
    page.goto(address(runs[:1], key="train/return"))
    figures = page.locator("[data-region='figures-1']")
    expect(figures.get_by_role("cell", name="20", exact=True)).to_be_visible()
    event = Story(runs[0].pk).event("metrics", step=41, values={"train/return": 0.5})
    tell(runs[0], [event | {"producer": "another"}])
    page.clock.run_for(16_000)
    expect(figures.get_by_role("cell", name="41", exact=True)).to_be_visible()
    copy = run_make(runs[0].owner, "fork", state="running")  # its values are those of the first run
    story = Story(copy.pk)
    story.draw = Story(runs[0].pk, seed=0).draw
    tell(copy, story.opening())
    tell(copy, story.iterations(0, 20, whole=0, evaluate=5))
    page.goto(address([runs[0], copy], key="train/return", by="run", smooth="0"))
    dashed = "document.querySelector('.js-plotly-plot')?.data.filter(({ line }) => line.dash === '5px,5px').map(({ y }) => y.length)"
    page.wait_for_function(f"() => {dashed}?.length === 1")
    page.context.close()


@pytest.mark.extended
def test_brushes_keep_runs_in_the_address(page: Page, runs: list[Run]) -> None:
    page.goto(address(runs, "parallel/"))
    grip = page.locator("[data-axis='eval/success'] .grip")
    box = grip.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    expect(page.get_by_role("heading", name="3 of 4 runs")).to_be_visible()
    expect(page).to_have_url(re.compile("brush=.*eval%2Fsuccess"))
    page.reload()
    expect(page.get_by_role("heading", name="3 of 4 runs")).to_be_visible()
    sizes = page.get_by_role("group", name="rollout.group_size")
    sizes.get_by_label("to").fill("4")
    sizes.get_by_label("to").press("Tab")
    expect(page.get_by_role("heading", name="2 of 4 runs")).to_be_visible()
    page.get_by_role("link", name="Compare only 2").click()
    expect(page.locator(".page-head .badge")).to_have_text("2 runs")
    assert "brush" not in page.url

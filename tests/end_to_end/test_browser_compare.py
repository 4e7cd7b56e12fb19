"""Runs side by side in a browser."""

import re
import time

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.end_to_end.conftest import Server, run_make, signed_in, tell
from tests.end_to_end.looks import look_at, shoot
from tests.end_to_end.seed import Story, encoded
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
        tell(run, encoded(story.opening()))
        tell(run, encoded(story.iterations(0, 10 if place == 3 else 20, whole=0, evaluate=5)))
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
    tell(runs[0], encoded(iter([event | {"producer": "another"}])))
    page.clock.run_for(16_000)
    expect(figures.get_by_role("cell", name="41", exact=True)).to_be_visible()
    copy = run_make(runs[0].owner, "fork", state="running")  # its values are those of the first run
    story = Story(copy.pk)
    story.draw = Story(runs[0].pk, seed=0).draw
    tell(copy, encoded(story.opening()))
    tell(copy, encoded(story.iterations(0, 20, whole=0, evaluate=5)))
    page.goto(address([runs[0], copy], key="train/return", by="run", smooth="0"))
    dashed = "document.querySelector('.js-plotly-plot')?.data.filter(({ line }) => line.dash === '5px,5px').map(({ y }) => y.length)"
    page.wait_for_function(f"() => {dashed}?.length === 1")
    shoot(page, "compare-overlap")
    page.context.close()


@pytest.mark.extended
def test_fields_that_differ(page: Page, runs: list[Run]) -> None:
    page.goto(address(runs, by="run", x="time"))
    page.get_by_role("link", name="Config", exact=True).click()
    expect(page.locator(".differences")).to_have_count(2)
    expect(page.get_by_role("row", name=re.compile("rollout.group_size"))).to_contain_text("4")
    page.wait_for_load_state()
    page.get_by_label("All fields").check()
    expect(page.locator("details.differences:not([open])").first).to_be_visible()
    expect(page).to_have_url(re.compile("x=time.*all=1|all=1.*x=time"))


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


@pytest.mark.extended
def test_the_same_tasks_side_by_side(page: Page, runs: list[Run]) -> None:
    page.goto(address(runs, "probes/"))
    expect(page.locator(".side-by-side").first.locator("article")).to_have_count(4)
    expect(page.locator(".side-by-side ins").first).to_be_visible()
    page.get_by_label("Evaluation", exact=True).fill("common")
    page.get_by_label("Evaluation", exact=True).press("Enter")
    expect(page.get_by_text("the last evaluation that all have reached")).to_be_visible()
    page.get_by_role("link", name="transcript").first.click()
    expect(page).to_have_url(re.compile(r"/episodes/\d+/"))


@pytest.mark.extended
def test_what_cannot_be_compared_is_said(page: Page, runs: list[Run]) -> None:
    page.goto("/compare/")
    expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()
    page.get_by_label("Plus runs matching").fill("rollout.group_size =")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.goto(address(runs, key="no/such"))
    expect(page.get_by_text("None of these runs has a finite value of no/such.")).to_be_visible()


@pytest.mark.extended
def test_fits_and_is_accessible(page: Page, runs: list[Run]) -> None:
    pages = (
        ("begin", "/compare/"),
        ("config", address(runs, "config/", all="1")),
        ("parallel", address(runs, "parallel/", brush='{"rollout.group_size":[4,6]}')),
        ("probes", address(runs, "probes/", at="common")),
        ("curves", address(runs, key="eval/success,train/return", smooth="0.6")),
    )
    look_at(page, "compare", pages)

"""Charts next to the runs table, and panels that people build, in a browser."""

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.looks import look_at, violations
from tests.end_to_end.seed import Story
from webapp.accounts.models import User
from webapp.runs.configs import family_of
from webapp.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
TRACES = "document.querySelector('.board-panel .plot')?.data?.filter(trace => trace.meta)"


@pytest.fixture
def runs(ada: User) -> list[Run]:
    """Two settings under two seeds each; the first run is still running."""
    made = []
    for place in range(4):
        run = run_make(ada, f"duo {place}", state="running")
        run.config["run"]["seed"] = place % 2
        run.config["rollout"]["group_size"] = 4 if place < 2 else 8
        run.family = family_of(run.config)
        run.save()
        story = Story(run.pk, seed=place, start=time.time() - 300)
        tell(run, story.opening())
        tell(run, story.iterations(0, 20, whole=0, evaluate=5))
        if place:
            tell(run, story.ending(20))
        made.append(run)
    return made


def drawn(page: Page, count: int) -> list[str]:
    """The labels of the first panel's lines, once there are `count`."""
    page.wait_for_function(f"() => {TRACES}?.length === {count}")
    labels: list[str] = page.evaluate(f"{TRACES}.map(trace => trace.meta)")
    return labels


def test_eyes_choose_the_runs_on_the_charts(page: Page, runs: list[Run]) -> None:
    page.goto("/runs/?sort=name")
    page.get_by_role("link", name="Charts", exact=True).click()
    assert drawn(page, 4) == [f"duo {place}" for place in range(4)]
    eye = page.get_by_role("button", name=re.compile("Show duo 1 .* on the charts"))
    expect(eye).to_have_attribute("aria-pressed", "true")
    eye.click()
    assert drawn(page, 3) == ["duo 0", "duo 2", "duo 3"]
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("v")
    assert drawn(page, 2) == ["duo 2", "duo 3"]
    colours = page.evaluate(f"{TRACES}.map(trace => trace.line.color)")
    linked = page.url
    assert f"shown={runs[2].pk}%2C{runs[3].pk}" in linked
    page.get_by_role("columnheader", name="state").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="state")).to_have_attribute("aria-sort", "ascending")
    drawn(page, 2)
    page.goto("/runs/?charts=1")
    drawn(page, 2)  # remembered
    page.evaluate("localStorage.clear()")
    page.goto(linked)
    drawn(page, 2)
    page.get_by_role("link", name="Compare shown").click()
    expect(page).to_have_url(re.compile(rf"/compare/\?runs={runs[2].pk}%2C{runs[3].pk}"))
    page.wait_for_function("() => document.querySelector('.group-chart .plot')?.data?.length")
    compared = "document.querySelector('.group-chart .plot').data.filter(trace => trace.meta).map(trace => trace.line.color)"
    assert page.evaluate(compared) == colours


@pytest.mark.extended
def test_groups_have_a_mean_and_running_runs_are_followed(page: Page, runs: list[Run]) -> None:
    page.goto("/runs/?charts=1&sort=name&by=rollout.group_size")
    assert drawn(page, 2) == ["group_size = 4", "group_size = 8"]
    assert page.evaluate(
        "document.querySelector('.board-panel .plot').data.some(trace => trace.fill === 'toself')"
    )
    page.get_by_label("Group by").select_option("family")
    expect(page.locator(".board-panel [data-legend]").first).to_contain_text("N 2")
    page.get_by_label("Group by").select_option("run")
    drawn(page, 4)
    page.wait_for_function(f"() => Math.max(...{TRACES}[0].x) === 15")
    expect(page.locator("[data-link]")).to_have_text("live")
    story = Story(runs[0].pk, attempt=1, seed=9, start=time.time())
    story._seq = 10_000
    event = story.event("metrics", step=30, values={"eval/success": 0.9}) | {"producer": "later", "seq": 1}
    tell(runs[0], [event])
    page.wait_for_function(f"() => Math.max(...{TRACES}[0].x) === 30")


@pytest.mark.extended
def test_the_workspace_in_every_look(page: Page, runs: list[Run]) -> None:
    page.goto("/runs/?charts=1&sort=name")
    drawn(page, 4)
    groups, families = "by=rollout.group_size&logx=1", "group=family"
    asked = [("runs", "sort=name"), ("groups", groups), ("families", families)]
    look_at(page, "workspace", [(name, f"/runs/?charts=1&{query}") for name, query in asked])
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Add chart").click()
    assert violations(page) == []


def act(page: Page, panel: str, *names: str) -> None:
    """Use the menu of a panel with the keyboard."""
    for name in names:
        summary = page.get_by_label(f"Change {panel}", exact=True)
        summary.focus()
        if not page.locator(".board-panel", has=summary).locator("details[open]").count():
            page.keyboard.press("Enter")
        page.get_by_label(panel, exact=True).get_by_role("button", name=name, exact=True).press("Enter")


@pytest.mark.extended
def test_a_chart_is_built_moved_and_saved_for_every_run(page: Page, runs: list[Run]) -> None:
    page.goto(f"/runs/{runs[0].pk}/curves/")
    page.get_by_role("button", name="Add chart").click()
    dialog = page.get_by_role("dialog", name="Chart")
    metrics, pattern = (
        dialog.get_by_label(re.compile("^Metrics")),
        dialog.get_by_label(re.compile("^And all that match")),
    )
    for wrong, message in (
        ("eval/success -", "is incomplete"),
        ("eval/nothing", "None of these runs reports eval/nothing"),
        ("", "Name a metric"),
    ):
        metrics.fill(wrong)
        metrics.press("Enter")
        expect(dialog.locator("[data-error=metrics]")).to_contain_text(message)
        expect(metrics).to_be_focused()
    metrics.fill("train/return - train/success, train/success")
    dialog.get_by_label(re.compile("^Horizontal axis")).fill("progress/tokens")
    dialog.get_by_role("button", name="Show").click()
    assert drawn(page, 2) == ["train/return (shaped) - train/success", "train/success"]
    assert page.evaluate(f"{TRACES}[0].x[0]") == 9300
    shown = page.evaluate(f"{TRACES}.map(trace => trace.y[4])")
    story = Story(runs[0].pk, seed=0)
    list(story.opening())
    values = [
        event["values"]
        for event in story.iterations(0, 20, whole=0, evaluate=5)
        if event["type"] == "metrics" and "train/return" in event["values"]
    ]
    assert shown == [
        pytest.approx(values[4]["train/return"] - values[4]["train/success"]),
        pytest.approx(values[4]["train/success"]),
    ]
    page.get_by_role("button", name="Add chart").click()
    pattern.fill("(")
    pattern.press("Enter")
    expect(dialog.locator("[data-error=pattern]")).to_contain_text("nvalid regular expression")
    pattern.fill("^policy/.*/entropy$")
    expect(dialog.locator("[data-matches]")).to_have_text("2 match")
    dialog.get_by_label("one chart for each metric").check()
    dialog.get_by_role("button", name="Show").click()
    titles = page.locator(".board-panel h3")
    expect(titles).to_have_count(3)
    act(page, "policy/planner/entropy", "Wider", "Taller", "Pin")
    expect(titles.first).to_have_text("policy/planner/entropy")
    expect(page.locator(".board-panel").first).to_have_attribute("data-width", "2")
    act(page, "policy/executor/entropy", "Move earlier")
    assert titles.all_inner_texts() == [
        "policy/planner/entropy",
        "policy/executor/entropy",
        "train/return - train/success, train/success",
    ]
    page.reload()
    expect(titles.nth(1)).to_have_text("policy/executor/entropy")
    act(page, "policy/executor/entropy", "Remove")
    expect(titles).to_have_count(2)
    assert violations(page) == []
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("button", name="Save as view").click()
    page.get_by_role("dialog", name="Save these charts").get_by_label("Name", exact=True).fill(
        "entropy and gap"
    )
    page.get_by_label("Visible to").select_option("members of Path finding")
    page.get_by_role("dialog", name="Save these charts").get_by_role("button", name="Save").click()
    expect(page.get_by_text("The view entropy and gap is saved.")).to_be_visible()
    page.evaluate("localStorage.clear()")
    page.goto(f"/runs/{runs[1].pk}/curves/")
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("link", name="entropy and gap").click()
    expect(titles).to_have_text(["policy/planner/entropy", "train/return - train/success, train/success"])
    look_at(page, "panels", [("curves", page.url)])
    page.goto("/runs/?sort=-created")
    page.get_by_role("link", name="entropy and gap").click()
    expect(titles).to_have_count(2)
    drawn(page, 4)

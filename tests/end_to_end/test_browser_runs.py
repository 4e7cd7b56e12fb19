"""The runs table in a browser: the filter and its suggestions."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from tests.end_to_end.conftest import run_make, run_told, tell
from tests.end_to_end.looks import look_at, violations
from tests.end_to_end.seed import Story
from webapp.accounts.models import User
from webapp.metrics.models import Series
from webapp.runs.models import Run, RunNote

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_filter_is_written_with_the_keyboard_and_stays_in_the_address(page: Page, ada: User) -> None:
    good, other = run_make(ada, "good"), run_make(ada, "other")
    Series.objects.create(run=good, key="eval/success", last_value=0.9)
    Series.objects.create(run=other, key="eval/success", last_value=0.2)
    page.goto("/runs/")
    field = page.get_by_role("combobox", name="Filter")
    field.press_sequentially("eval/suc")
    expect(page.locator("#filter-options li")).to_have_text(["eval/successmetric"])
    field.press("Tab")
    expect(field).to_have_value("eval/success ")
    field.press_sequentially("> 0.5 and state = fin")
    page.locator("#filter-options li", has_text="finished").click()
    expect(field).to_have_value("eval/success > 0.5 and state = finished ")
    field.press("Escape")
    field.fill("eval/success > 0.5")
    field.press("Escape")
    field.press("Enter")
    expect(page.locator("tr[data-run]")).to_have_count(1)
    expect(page.get_by_role("link", name="good")).to_be_visible()
    assert "filter=eval%2Fsuccess+%3E+0.5" in page.url
    page.reload()
    expect(page.locator("tr[data-run]")).to_have_count(1)


def run_with_kl(ada: User) -> tuple[Run, Story]:
    """A run with one value of policy/planner/kl, and what it reports next."""
    run, story = run_told(ada, "duo", "running")
    tell(run, [story.event("metrics", step=1, values={"policy/planner/kl": 0.25})])
    return run, story


@pytest.mark.extended
def test_columns_are_chosen_with_completion_and_live(page: Page, ada: User) -> None:
    run, story = run_with_kl(ada)
    page.goto("/runs/?q=duo")
    page.get_by_role("button", name="Columns").click()
    dialog = page.get_by_role("dialog", name="Columns")
    field = dialog.get_by_label("Add a column")
    field.press_sequentially("run.se")
    dialog.get_by_role("option", name="run.seed").click()
    field.press_sequentially("planner/kl")
    expect(dialog.get_by_role("option").first).to_have_text("policy/planner/klmetric")
    field.press("ArrowDown")
    field.press("Enter")
    dialog.get_by_role("button", name="Remove eval_sampled/success").click()
    dialog.get_by_role("button", name="Earlier: policy/planner/kl").click()
    assert dialog.get_by_role("listitem").all_inner_texts()[-2].startswith("policy/planner/kl")
    assert violations(page) == []
    dialog.get_by_role("button", name="Show").click()
    expect(page.get_by_role("columnheader", name="run.seed")).to_be_visible()
    expect(page.get_by_role("columnheader", name="sampled")).to_have_count(0)
    assert "columns=" in page.url and "q=duo" in page.url
    cell = page.locator("[data-metric='policy/planner/kl'] [data-value]")
    expect(cell).to_have_text("0.25")
    tell(run, [story.event("metrics", step=2, values={"policy/planner/kl": 0.5})])
    expect(cell).to_have_text("0.50")
    expect(page.locator("[data-metric='policy/planner/kl'] [data-change]")).to_have_text("+0.25")
    page.get_by_role("link", name="policy/planner/kl").click()
    expect(page.get_by_role("columnheader", name="policy/planner/kl")).to_have_attribute(
        "aria-sort", "descending"
    )
    page.wait_for_load_state()
    page.get_by_role("button", name="Columns").click()
    dialog.get_by_role("button", name="Standard").click()
    dialog.get_by_role("button", name="Show").click()
    expect(page.get_by_role("columnheader", name="sampled")).to_be_visible()
    assert "columns=" not in page.url and "sort=-policy" in page.url


@pytest.mark.extended
def test_a_late_answer_keeps_the_chosen_option(page: Page, ada: User) -> None:
    run_with_kl(ada)
    page.goto("/runs/")
    page.get_by_role("button", name="Columns").click()
    dialog = page.get_by_role("dialog", name="Columns")
    field, option = dialog.get_by_label("Add a column"), dialog.get_by_role("option")
    field.press_sequentially("planner/k")
    expect(option.first).to_contain_text("policy/planner/kl")
    option.first.evaluate("(option) => (window.earlier = option)")
    held: list[Route] = []
    page.route(re.compile(r"text=planner%2Fkl$"), lambda route: held.append(route))
    with page.expect_request(re.compile(r"text=planner%2Fkl$")):
        field.press("l")
    field.press("ArrowDown")
    held[0].continue_()
    page.wait_for_function("() => !window.earlier.isConnected")
    expect(option.first).to_have_attribute("aria-selected", "true")
    field.press("Enter")
    expect(dialog.get_by_role("button", name="Earlier: policy/planner/kl")).to_be_visible()


@pytest.mark.extended
def test_rows_are_walked_chosen_and_noted_with_the_keyboard(page: Page, ada: User) -> None:
    for name in ("one", "two", "three"):
        run_make(ada, name)
    page.goto("/runs/?sort=name")
    expect(page.locator("tr[data-run]")).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="three")).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_label("Select three")).to_be_checked()
    expect(page.locator("[data-chosen]")).to_have_text("1 run selected")
    page.keyboard.press("k")
    expect(page.get_by_role("link", name="one")).to_be_focused()
    page.keyboard.press("n")
    dialog = page.get_by_role("dialog", name="Note on one")
    dialog.get_by_label("Note").fill("<i>raised</i> the entropy bonus")
    assert violations(page) == []
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator(".row-note")).to_have_text("¶ <i>raised</i> the entropy bonus")
    page.wait_for_load_state()
    page.locator("tr", has_text="raised").hover()
    page.get_by_role("button", name="Note on one").click()
    dialog.get_by_role("button", name="Change it").click()
    expect(dialog.get_by_label("Note")).to_have_value("<i>raised</i> the entropy bonus")
    dialog.get_by_label("Note").fill("lowered it")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator(".row-note")).to_have_text("¶ lowered it")
    page.wait_for_load_state()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert violations(page) == []


def many(ada: User) -> None:
    """A table with something in every place."""
    for place, state in enumerate(("running", "finished", "failed", "queued", "paused")):
        run = run_make(ada, f"duo with seed {place}", "running")
        if state != "queued":
            story = Story(run.pk, seed=place)
            tell(run, story.opening())
            tell(run, story.iterations(0, 12 * (place + 1)))
        run.refresh_from_db()
        run.state, run.tags, run.priority = state, ["baseline", "tiny"][: place % 3], place % 2
        run.reason = "EngineFailure: the model does not fit into 24 GiB" if state == "failed" else ""
        run.save()
        if place == 1:
            RunNote.objects.create(
                run=run, author=ada, text="the entropy bonus keeps it from collapsing; try 0.005 next"
            )


@pytest.mark.extended
def test_the_table_in_every_look(page: Page, ada: User) -> None:
    many(ada)
    Run.objects.update(created_at=timezone.now() - timedelta(minutes=59))
    own = "?columns=progress,left,run.seed,eval/success:max,policy/planner/kl,policy/planner/entropy,owner"
    families = "?group=family&columns=algorithm.type,eval/success,policy/planner/kl"
    look_at(
        page, "runs", [("own", f"/runs/{own}"), ("families", f"/runs/{families}"), ("standard", "/runs/")]
    )
    page.set_viewport_size({"width": 1440, "height": 900})
    widths = "(panel => [panel.scrollWidth, panel.clientWidth])(document.querySelector('.panel.scroll-x'))"
    wanted, there = page.evaluate(widths)
    assert wanted <= there, f"{page.locator('thead').inner_text()}: {wanted} pixels"
    page.locator(".spark-cell").first.evaluate("cell => cell.parentElement.append('−10,234.5')")
    left = "new Set([...document.querySelectorAll('.spark')].map(spark => spark.getBoundingClientRect().left)).size"
    assert page.evaluate(left) == 1
    over = (
        "[...document.querySelectorAll('td.metric:has(.spark)')].filter(cell => cell.querySelector('.spark')"
        ".getBoundingClientRect().right > cell.querySelector('.figure').getBoundingClientRect().left || cell.querySelector("
        "'.change').getBoundingClientRect().right > cell.getBoundingClientRect().right).length"
    )
    assert page.locator("td.metric .spark").count() and page.evaluate(over) == 0, (
        "curves or figures over others"
    )


def test_a_link_that_mlflow_prints_leads_to_the_run(page: Page, ada: User) -> None:
    run = run_make(ada, "good")
    for address in ("/mlflow/", f"/mlflow/{run.project.slug}/"):
        page.goto(f"{address}#/experiments/1/runs/{run.pk}")
        page.wait_for_url(f"**/runs/{run.pk}/")

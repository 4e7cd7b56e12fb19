"""Curves in a real browser: marks of events, and everything that the page can do with a chart."""

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.end_to_end.announcements import announced, listen, wait_for
from tests.end_to_end.conftest import run_make, run_told, tell
from tests.end_to_end.seed import Story
from webapp.accounts.models import User
from webapp.health.models import Finding
from webapp.runs.models import Attempt, Run, RunNote

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
Telling = tuple[Run, Story]


@pytest.fixture
def telling(ada: User) -> Telling:
    """A run after 44 iterations in two attempts, with a checkpoint, an edit, a finding and a note."""
    run, _ = run_told(ada, iterations=32, ago=90)
    run.attempts.update(state="ended", ended_as="lost")
    Attempt.objects.create(
        run=run, number=2, state="live", submission_id=f"{run.pk}-2", resumed_from="iteration-000020", resumed_iteration=20,
        changes={"algorithm.clip_low": 0.1},
    )  # fmt: skip
    second = Story(run.pk, attempt=2, start=time.time() - 30)
    tell(run, second.opening())
    tell(run, second.iterations(20, 44))
    Finding.objects.create(
        run=run, rule="kl_blow_up", key="policy/planner/kl", severity="critical", title="planner <i>ran</i> away",
        first_step=9, last_step=12, evidence={},
    )  # fmt: skip
    RunNote.objects.create(run=run, author=ada, step=30, text="<b>odd</b> jump here")
    return run, second


def drawn(page: Page, chart: str, check: str = "true") -> None:
    """Bring a chart into sight, and wait until it is drawn and `check`, an expression over its `plot`, holds."""
    page.locator(f"#chart-{chart}").scroll_into_view_if_needed()
    page.wait_for_function(
        f"(id) => {{ const plot = document.querySelector(`#chart-${{id}} .plot`); return plot.data && ({check}); }}",
        arg=chart,
    )


def signs(page: Page, chart: str) -> list[str]:
    """What stands at the top of a chart, from left to right."""
    drawn(page, chart)
    script = "id => (document.querySelector(`#chart-${id} .plot`).layout.annotations ?? []).map((each) => [each.x, each.text])"
    return [text for _, text in sorted(page.evaluate(script, chart))]


@pytest.mark.extended
def test_events_are_marked_on_every_chart_and_hidden_by_the_address(page: Page, telling: Telling) -> None:
    run, _ = telling
    for address, chart in ((f"/runs/{run.pk}/", "return"), (f"/runs/{run.pk}/curves/", "policy-entropy")):
        page.goto(address)
        assert sorted(signs(page, chart)) == sorted("!↻✎¶◆")
    page.get_by_text("Marks", exact=True).click()
    expect(page.locator('[data-mark-count="note"]')).to_have_text("1")
    page.get_by_role("checkbox", name="Findings").uncheck()
    page.get_by_role("checkbox", name="Checkpoints").uncheck()
    drawn(page, "policy-entropy", "plot.layout.annotations.length === 3")
    assert page.url.endswith("?hide=checkpoint%2Cfinding")
    page.reload()
    assert sorted(signs(page, "policy-entropy")) == sorted("↻✎¶")
    expect(page.get_by_role("checkbox", name="Findings", include_hidden=True)).not_to_be_checked()


@pytest.mark.extended
def test_a_mark_far_from_the_data_does_not_stretch_the_axis(page: Page, telling: Telling, ada: User) -> None:
    run, _ = telling
    RunNote.objects.create(run=run, author=ada, step=10**12, text="far away")
    page.goto(f"/runs/{run.pk}/curves/")
    assert sorted(signs(page, "policy-entropy")) == sorted("!↻✎¶◆")
    drawn(page, "policy-entropy", "plot.layout.xaxis.range[1] < 100")


@pytest.mark.extended
def test_a_note_is_written_by_keyboard_and_stays_text(page: Page, telling: Telling) -> None:
    run, _ = telling
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.keyboard.press("n")
    page.get_by_label("Note", exact=True).fill("<img src=x onerror=window.hacked=1>")
    expect(page.get_by_label("At step")).to_have_value("44")
    page.get_by_label("At step").fill("12")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("li[id^=note-]")).to_contain_text(["<img src=x onerror=window.hacked=1>"])
    note = RunNote.objects.get(step=12)
    assert signs(page, "return").count("¶") == 2
    assert page.evaluate("window.hacked") is None
    page.locator(f"#note-{note.pk}").get_by_role("button").click()
    expect(page.locator(f"#note-{note.pk}")).to_have_count(0)


def main_line(page: Page, chart: str, what: str = "x") -> list[float]:
    """What the last trace of a chart draws."""
    drawn(page, chart)
    found: list[float] = page.evaluate(
        "([id, what]) => document.querySelector(`#chart-${id} .plot`).data.at(-1)[what]", [chart, what]
    )
    return found


@pytest.mark.extended
def test_zero_counts_start_at_zero_and_ended_runs_are_not_live(page: Page, telling: Telling) -> None:
    run, story = telling
    page.goto(f"/runs/{run.pk}/curves/?q=staleness")
    drawn(page, "rollout-staleness", "plot.layout.yaxis.range[0] > -0.1 && plot.layout.yaxis.range[1] > 1")
    expect(page.locator("[data-link]")).to_have_text("live")
    expect(page.locator("[data-link]")).to_be_visible()
    tell(run, story.ending(44))
    expect(page.locator("[data-link]")).to_have_text("live")
    expect(page.locator("[data-link]")).not_to_be_visible()


@pytest.mark.extended
def test_search_by_words_and_by_regular_expression(page: Page, telling: Telling) -> None:
    run, _ = telling
    listen(page)
    page.goto(f"/runs/{run.pk}/curves/")
    page.get_by_label("Search charts").fill("entropy")
    wait_for(page, "status", "1 chart.")
    page.reload()
    expect(page.locator(".chart:visible")).to_have_count(1)
    page.get_by_label("Search charts").fill("policy/(planner|executor)/(kl|lr)$")
    expect(page.locator("main")).to_contain_text("No chart matches")
    wait_for(page, "status", "0 charts.")
    assert "1 chart." not in announced(page), "the page was opened with it"
    page.get_by_role("checkbox", name="Regular expression").check()
    expect(page.locator(".chart:visible h3")).to_have_text(["kl", "lr"])
    page.get_by_label("Search charts").fill("policy/(")
    expect(page.get_by_role("alert")).to_contain_text("Invalid regular expression")
    expect(page.get_by_label("Search charts")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".chart:visible")).to_have_count(2)
    page.get_by_label("Search charts").fill("^eval/")
    expect(page.get_by_role("alert")).to_be_hidden()
    assert "q=%5Eeval%2F&regex=1" in page.url
    page.reload()
    expect(page.locator("[data-section]:visible")).to_have_count(1)


def test_x_axes_smoothing_and_scales_are_in_the_address(page: Page, telling: Telling) -> None:
    run, _ = telling
    page.goto(f"/runs/{run.pk}/curves/?smooth=0&x=tokens")
    drawn(page, "train-return", "plot.data.at(-1).x.at(-1) === 409200")
    assert main_line(page, "train-return") == [9300.0 * step for step in range(1, 45)]
    raw = main_line(page, "train-return", "y")
    page.get_by_label("Against").select_option("step")
    drawn(page, "train-return", "plot.data.at(-1).x.at(-1) === 44")
    assert "x=" not in page.url
    assert main_line(page, "train-return", "y") == raw
    page.get_by_label("Against").select_option("time")
    drawn(page, "train-return", "plot._fullLayout.xaxis.type === 'date'")
    page.locator("[data-view=smooth]").fill("0.5")
    drawn(page, "train-return", "plot.data.length === 3")
    total = mass = 0.0
    expected = []
    for value in raw:
        total, mass = 0.5 * total + 0.5 * value, 0.5 * mass + 0.5
        expected.append(total / mass)
    assert main_line(page, "train-return", "y") == pytest.approx(expected)
    page.get_by_text("View", exact=True).click()
    page.get_by_label("Behind the smoothed line").select_option("band")
    drawn(page, "train-return", "plot.data.some((trace) => trace.fill === 'tonexty')")
    page.locator('[data-view="logy"]').check()
    drawn(page, "train-return", "plot._fullLayout.yaxis.type === 'log'")
    for said in ("x=time", "smooth=0.5", "under=band", "logy=1"):
        assert said in page.url
    page.get_by_role("button", name="Reset").click()
    drawn(page, "train-return", "plot._fullLayout.yaxis.type === 'linear'")
    assert page.url.endswith("/curves/")


@pytest.mark.extended
def test_outliers_are_left_out_of_the_range_and_counted(page: Page, telling: Telling) -> None:
    run, story = telling
    tell(run, [story.event("metrics", step=45, values={"train/return": 5000.0})])
    page.goto(f"/runs/{run.pk}/curves/?smooth=0&range=most")
    drawn(page, "train-return", "plot._fullLayout.yaxis.range[1] < 10")
    expect(page.locator("#chart-train-return [data-outside]")).to_have_text("1 outside")
    page.goto(f"/runs/{run.pk}/curves/?smooth=0")
    drawn(page, "train-return", "plot._fullLayout.yaxis.range[1] > 5000")
    expect(page.locator("#chart-train-return [data-outside]")).to_be_hidden()


def test_charts_are_pointed_at_and_zoomed_together_and_lead_to_transcripts(
    page: Page, telling: Telling
) -> None:
    run, _ = telling
    page.goto(f"/runs/{run.pk}/?smooth=0&hide=checkpoint,attempt,edit,finding,note")
    main_line(page, "kl")
    box = page.locator("#chart-return .nsewdrag").bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    expect(page.locator(".crosshair:visible")).to_have_count(6)
    page.mouse.move(0, 0)
    expect(page.locator(".crosshair")).to_have_count(0)
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=5)
    page.mouse.up()
    drawn(page, "kl", "plot._fullLayout.xaxis.range[0] > 10 && plot._fullLayout.xaxis.range[1] < 40")
    assert "from=" in page.url and "to=" in page.url
    page.get_by_role("button", name="Zoom out").click()
    drawn(page, "kl", "plot._fullLayout.xaxis.range[0] <= 1")
    page.mouse.click(box["x"] + box["width"] / 2, middle)
    page.wait_for_url(re.compile(r"/transcripts/\?iteration=2\d"))


@pytest.mark.extended
def test_a_long_series_is_smoothed_over_all_points_and_zoomed(page: Page, ada: User) -> None:
    run = run_make(ada, state="finished")
    story, values = Story(run.pk), [float((step * 7919) % 101) for step in range(4000)]
    tell(run, (story.event("metrics", step=step, values={"x/y": value}) for step, value in enumerate(values)))
    page.goto(f"/runs/{run.pk}/curves/?smooth=0.98&under=band")
    drawn(page, "x-y", "plot.data.length === 3 && plot.data.at(-1).x.length === 300")
    total = mass = 0.0
    for value in values:
        total, mass = 0.98 * total + 0.02 * value, 0.98 * mass + 0.02
    assert main_line(page, "x-y", "y")[-1] == pytest.approx(total / mass, abs=4.0), (
        "of 4,000 points from 0 to 100"
    )
    page.goto(f"/runs/{run.pk}/curves/?smooth=0&from=1000&to=1100")
    drawn(page, "x-y", "plot.data.at(-1).x.length < 200 && plot.data.at(-1).x.includes(1050)")
    steps = [int(step) for step in main_line(page, "x-y", "x")]
    assert steps == list(range(steps[0], steps[-1] + 1)) and steps[0] <= 1000 and steps[-1] >= 1100
    assert main_line(page, "x-y", "y") == values[steps[0] : steps[-1] + 1]
    page.get_by_role("button", name="Zoom out").click()
    drawn(page, "x-y", "plot.data.at(-1).x.at(-1) === 3999")


@pytest.mark.extended
def test_zoom_and_crosshair_on_an_axis_of_time(page: Page, telling: Telling) -> None:
    run, _ = telling
    page.goto(
        f"/runs/{run.pk}/curves/train-return/?smooth=0&x=time&hide=checkpoint,attempt,edit,finding,note"
    )
    times = main_line(page, "train-return")
    box = page.locator(".nsewdrag").bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    page.mouse.move(box["x"] + box["width"] * 0.6, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, middle, steps=5)
    page.mouse.up()
    drawn(page, "train-return", f"plot._fullLayout.xaxis.r2l(plot._fullLayout.xaxis.range[0]) > {times[0]}")
    window = re.search(r"from=(\d+)&to=(\d+)", page.url)
    assert window and times[0] < int(window[1]) < int(window[2]) <= times[-1] + 10_000


@pytest.mark.extended
def test_only_charts_in_sight_are_mounted(page: Page, telling: Telling) -> None:
    run, _ = telling
    page.goto(f"/runs/{run.pk}/curves/")
    drawn(page, "eval-success")
    last = page.locator(".chart").last
    expect(last.locator(".main-svg")).to_have_count(0)
    last.scroll_into_view_if_needed()
    expect(last.locator(".main-svg")).not_to_have_count(0)
    expect(page.locator("#chart-eval-success .main-svg")).to_have_count(0)


@pytest.mark.extended
def test_a_chart_has_an_address_and_files(page: Page, telling: Telling, tmp_path: Path) -> None:
    run, _ = telling
    page.goto(f"/runs/{run.pk}/curves/?smooth=0")
    page.get_by_role("link", name="Open entropy on a separate page").click()
    expect(page.locator("h3")).to_have_text("entropy")
    assert page.url.endswith(f"/runs/{run.pk}/curves/policy-entropy/?smooth=0")
    main_line(page, "policy-entropy")
    for name, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"metric,attempt,step,time,value\n")):
        page.get_by_role("button", name="Save entropy").click()
        with page.expect_download() as download:
            page.locator(".sheet").get_by_text(name, exact=True).click()
        file = tmp_path / name
        download.value.save_as(file)
        assert file.read_bytes().startswith(start), name
        page.keyboard.press("Escape")
    rows = (tmp_path / "CSV").read_text().splitlines()
    assert len(rows) == 1 + 2 * (32 + 24)
    assert {row.split(",")[0] for row in rows[1:]} == {
        "policy/planner/entropy",
        "policy/executor/entropy",
    }
    assert "entropy" in (tmp_path / "SVG").read_text()


LINES = "(id) => document.querySelector(`#chart-${id} .plot`).data.filter(trace => trace.meta).map(trace => [trace.x.at(-1), trace.name])"


@pytest.mark.extended
def test_a_fork_begins_with_its_parents_curve(page: Page, telling: Telling, ada: User) -> None:
    parent, story = telling
    fork = run_make(ada, "Second try")
    Run.objects.filter(pk=fork.pk).update(parent=parent, parent_iteration=30, iteration=30)
    more = Story(fork.pk, start=story.now + 3)
    tell(fork, more.iterations(30, 42))
    page.goto(f"/runs/{fork.pk}/")
    expect(page.locator("[data-figure='train/return'] [data-versus]")).to_contain_text("vs parent at step 42")
    drawn(page, "return", "plot.data.filter(trace => trace.meta).length === 4")
    label = f"parent: {parent.name} until iteration 30"
    lines = page.evaluate(LINES, "return")
    assert lines[:2] == [[30, f"training ({label})"], [42, "training"]]
    legend = page.locator("#chart-return [data-lead]")
    expect(legend).to_have_text(label)
    tell(fork, more.iterations(42, 46))
    expect(page.locator("[data-figure='train/return'] [data-versus]")).to_contain_text(
        "vs parent's last, step 44"
    )
    page.goto(f"/runs/{fork.pk}/curves/?x=tokens&q=train/return")
    drawn(page, "train-return", "plot.data.filter(trace => trace.meta).length === 2")
    assert page.evaluate(LINES, "train-return")[0][0] == 30 * 9300
    page.get_by_text("View", exact=True).click()
    page.get_by_label("Before the fork").select_option("none")
    drawn(page, "train-return", "plot.data.filter(trace => trace.meta).length === 1")
    expect(page.locator("#chart-train-return [data-lead]")).to_be_hidden()
    assert "lead=none" in page.url
    page.goto(f"/runs/{fork.pk}/curves/?x=time&q=train/return")
    drawn(page, "train-return", "plot.data.filter(trace => trace.meta).length === 2")


@pytest.mark.extended
def test_a_run_with_many_metrics_is_searched_on_the_server(page: Page, ada: User) -> None:
    run, story = run_told(ada)
    names = [f"layer_{number:04}/norm" for number in range(1990)] + [
        f"net/unit_{number}" for number in range(500)
    ]

    def step(number: int, some: list[str]) -> None:
        parts = [some[first : first + 1000] for first in range(0, len(some), 1000)]
        values = [dict.fromkeys(part, number / 2) for part in parts]
        tell(run, (story.event("metrics", step=number, values=part) for part in values))

    def choose_before_answer(route: Route) -> None:
        answer = route.fetch()
        page.locator("[data-sections] select").select_option("net")
        route.fulfill(response=answer)

    step(1, names)
    page.goto(f"/runs/{run.pk}/curves/")
    shown = page.locator(".chart:not(.board-panel)")
    expect(shown).to_have_count(60)
    expect(page.locator("[data-matching]")).to_contain_text("2,490 of 2,490 metrics match")
    shown.last.scroll_into_view_if_needed()
    expect(shown).to_have_count(120)
    page.get_by_label("Search charts").fill("UNIT_49")
    expect(shown).to_have_count(11)
    assert page.url.endswith("?q=UNIT_49")
    drawn(page, "net-unit_499", "plot.data.at(-1).x.length === 1")
    step(2, ["net/unit_499"])
    drawn(page, "net-unit_499", "plot.data.at(-1).x.length === 2")
    page.get_by_role("checkbox", name="Regular expression").check()
    page.get_by_label("Search charts").fill("unit_(")
    expect(page.get_by_role("alert")).to_contain_text("invalid regular expression")
    expect(shown).to_have_count(11)
    page.get_by_label("Search charts").fill("unit_(7|8)$")
    expect(shown.locator("h3")).to_have_text(["unit 7", "unit 8"])
    page.route("**/curves/?*part=charts*", choose_before_answer, times=1)
    page.get_by_label("Search charts").fill("")
    expect(shown.first).to_contain_text("unit 0")
    expect(shown).to_have_count(60)
    page.reload()
    expect(shown.first).to_contain_text("unit 0")
    page.get_by_role("button", name="Add chart").click()
    page.get_by_role("textbox", name="And all that match").fill("unit_12.$")
    expect(page.locator("[data-matches]")).to_have_text("10 match; one chart has at most 8")
    page.get_by_label("Metrics one or more").fill("layer_1989/norm, layer_1990/norm")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("[data-error=metrics]")).to_have_text("None of these runs reports layer_1990/norm.")
    page.get_by_label("Metrics one or more").fill("layer_1989/norm")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator(".board-panel .scatterlayer .trace")).to_have_count(16)  # a line and its points

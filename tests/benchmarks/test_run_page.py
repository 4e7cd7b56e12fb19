"""How soon a run's pages can be used, with 200 metrics, in Chromium on a real server; printed and never judged by a clock.

    python -m pytest -s -m slow tests/benchmarks/test_run_page.py

Milliseconds since the navigation began, median and longest of seven visits: until search and controls work, until the
first chart is drawn, until all charts in sight are.
"""

import statistics

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.end_to_end.conftest import (  # noqa: F401
    ada,
    context,
    kept_server,
    page,
    run_make,
    server,
    static_root,
)
from webapp.accounts.models import User
from webapp.metrics.arrays import pack_floats, pack_ints
from webapp.metrics.models import Chunk, Series
from webapp.runs.models import Run

pytestmark = [pytest.mark.extended, pytest.mark.browser, pytest.mark.django_db(transaction=True)]
KEYS, POINTS, VISITS = 200, 2_000, 7
DRAWN = """() => {
  const seen = [...document.querySelectorAll('.chart .plot')].filter((each) => {
    const box = each.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight;
  });
  return seen.length && seen.every((each) => each.querySelector('.main-svg'));
}"""
TIMES = """() => {
  const marks = (name) => performance.getEntriesByName(name).map((each) => each.startTime);
  const seen = [...document.querySelectorAll('.chart')].filter((each) => each.getBoundingClientRect().top < innerHeight).length;
  const drawn = marks('chart');
  return {controls: marks('interactive')[0], first: drawn[0], all: drawn.slice(0, seen).at(-1), seen};
}"""


def many_metrics(user: User) -> Run:
    """A run with the metrics of two policies, and so many others that there are KEYS."""
    run = run_make(user, "wide", "finished")
    named = ["eval/success", "train/return", "policy/planner/entropy", "policy/executor/entropy"]
    keys = named + [f"extra/{number // 20}/metric_{number}" for number in range(KEYS - len(named))]
    steps = np.arange(1, POINTS + 1)
    for place, key in enumerate(keys):
        values = np.sin(steps / (50.0 + place)) + np.random.default_rng(place).normal(0, 0.1, POINTS)
        series = Series.objects.create(
            run=run, key=key, count=POINTS, last_step=POINTS, last_value=values[-1]
        )
        Chunk.objects.create(
            series=series, attempt=1, cursor=1, count=POINTS,
            steps=pack_ints(steps), values=pack_floats(values), times=pack_floats(1e9 + steps),
        )  # fmt: skip
    run.event_count, run.iteration = 1, POINTS
    run.save()
    return run


@pytest.mark.parametrize("tab", ["curves/", ""], ids=["curves", "overview"])
def test_a_page_with_many_metrics(page: Page, ada: User, tab: str) -> None:  # noqa: F811
    run = many_metrics(ada)
    found: dict[str, list[float]] = {"controls": [], "first": [], "all": []}
    for visit in range(VISITS + 1):
        page.goto(f"/runs/{run.pk}/{tab}", wait_until="commit")
        page.wait_for_function(DRAWN, timeout=60_000)
        times = page.evaluate(TIMES)
        assert times["seen"] >= 1 and times["first"] >= times["controls"] > 0
        if visit:  # the first fills the browser's cache
            for name, costs in found.items():
                costs.append(times[name])
    names = {"controls": "controls work", "first": "first chart", "all": "charts in sight"}
    for name, costs in found.items():
        print(
            f"\n{KEYS} metrics, {tab or 'overview/'} {names[name]}: median {statistics.median(costs):.0f} ms, "
            f"longest {max(costs):.0f} ms",
            end="",
        )
    if tab:
        page.get_by_label("Search charts").fill("metric_19")
        assert page.locator(".chart:visible").count() == 7, "19 and 190 to 195"

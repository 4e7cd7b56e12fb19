"""Live charts in a notebook: what they show and keep, with a stand-in for the output of a cell."""

import re
from collections.abc import Callable
from math import inf, nan
from pathlib import Path

import pytest

import troupe
from training_core.errors import TroupeError
from troupe_client.reporting.notebook import BUCKETS, MOST_CHARTS, Curve, LiveCharts


class Cell:
    """Output of a cell, with a clock that stands still."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.now = 0.0

    def charts(self, *names: str) -> LiveCharts:
        def show(html: str) -> Callable[[str], None]:
            self.shown.append(html)
            return self.shown.append

        return LiveCharts("<a>link</a>", names, show, lambda: self.now)

    @property
    def names(self) -> list[str]:
        return re.findall(r'aria-label="([^"]*)"', self.shown[-1])


def test_the_first_metrics_or_the_named_ones_have_charts() -> None:
    cell = Cell()
    cell.charts().note(0, {f"m{number}": 1.0 for number in range(10)})
    assert cell.names == [f"m{number}" for number in range(MOST_CHARTS)]
    assert cell.shown[-1].startswith("<div><a>link</a>") and "<script" not in cell.shown[-1]
    named = Cell()
    named.charts("b<", "later").note(0, {"a": 1.0, "b<": 2.5})
    assert named.names == ["b&lt;"] and "<b>2.5</b>" in named.shown[-1]


def test_updates_wait_a_second_and_the_end_draws_what_is_left() -> None:
    cell = Cell()
    charts = cell.charts()
    for step in range(5):
        charts.note(step, {"loss": float(step)})
    assert len(cell.shown) == 2, "the empty output and the first value"
    cell.now = 1.0
    charts.note(5, {"loss": 5.0})
    charts.note(6, {"loss": 6.0})
    assert len(cell.shown) == 3 and "<b>5</b>" in cell.shown[-1]
    charts.draw()
    assert "<b>6</b>" in cell.shown[-1]


def test_values_that_are_not_finite_are_left_out() -> None:
    cell = Cell()
    charts = cell.charts()
    for step, value in enumerate([1.0, nan, inf, -inf]):
        charts.note(step, {"loss": value})
    charts.draw()
    assert "<b>1</b>" in cell.shown[-1] and "nan" not in cell.shown[-1] and "inf" not in cell.shown[-1]


def test_a_long_course_keeps_its_ends_and_spikes_in_bounded_memory() -> None:
    curve = Curve()
    for step in range(100_000):
        curve.add(step, {54_321: 9.0, 77_777: -9.0}.get(step, step / 1e6))
    points = curve.points()
    assert len(points) <= 2 * BUCKETS + 1 and len(curve.buckets) <= BUCKETS
    assert {(0, 0.0), (54_321, 9.0), (77_777, -9.0), (99_999, 0.099999)} <= set(points)
    assert points == sorted(points)


def test_outside_a_notebook_the_error_names_the_page(tmp_path: Path) -> None:
    run = troupe.init(mode="offline", dir=str(tmp_path))
    with pytest.raises(TroupeError):
        run.live()
    run.log({"loss": 1.0})
    troupe.finish()

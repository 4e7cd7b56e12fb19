"""Buckets of a long series against a loop over its points."""

import math

import numpy as np
import pytest

from tests.webapp.metrics.test_series import event, store
from webapp.metrics.buckets import buckets_of, superseded
from webapp.metrics.selectors import points_read, series_read
from webapp.runs.models import Run


def test_points_after_a_later_attempts_first_step_are_superseded() -> None:
    steps = np.array([1, 2, 3, 3, 4, 4, 5, 5])
    attempts = np.array([1, 1, 1, 2, 1, 2, 2, 3])
    assert superseded(steps, attempts).tolist() == [False, False, True, False, True, False, True, False]


def test_buckets_agree_with_a_loop_over_the_points() -> None:
    draw = np.random.default_rng(0)
    count, wanted = 1003, 60
    steps, times = np.arange(count), 5.0 + np.arange(count)
    values = draw.normal(size=count)
    values[[3, 500]] = [math.nan, math.inf]
    attempts = np.where(steps < 700, 1, 2)
    found = buckets_of(steps, values, times, attempts, wanted)
    kept = [index for index in range(count) if math.isfinite(values[index])]
    assert len(found.steps) == wanted and found.counts.sum() == len(kept) == count - 2
    first = 0
    for place in range(wanted):
        some = kept[first : first + int(found.counts[place])]
        numbers = [float(values[index]) for index in some]
        assert found.means[place] == pytest.approx(sum(numbers) / len(numbers), abs=1e-12)
        assert (found.lows[place], found.highs[place]) == (min(numbers), max(numbers))
        assert (found.steps[place], found.times[place]) == (steps[some[-1]], times[some[-1]])
        first += len(some)
    assert max(found.counts) - min(found.counts) <= 1


def test_few_points_are_buckets_of_one_and_none_are_none() -> None:
    three = np.array([1, 2, 3])
    found = buckets_of(three, np.array([1.0, math.nan, 3.0]), three * 1.0, np.ones(3, int), 60)
    assert found.json() == {
        "steps": [1, 3], "times": [1.0, 3.0], "means": [1.0, 3.0], "lows": [1.0, 3.0], "highs": [1.0, 3.0],
        "counts": [1, 1],
    }  # fmt: skip
    nothing = buckets_of(three, np.full(3, math.nan), three * 1.0, np.ones(3, int))
    assert nothing.json()["means"] == []


@pytest.mark.django_db
def test_a_long_series_has_buckets_and_readable_parts(run: Run) -> None:
    store(run, *(event(step, {"a": float(step % 7)}, float(step)) for step in range(2000)))
    long = series_read(run, ["a"], points=1000)["a"]
    assert len(long["steps"]) <= 1000 and sum(long["buckets"]["counts"]) == 2000
    assert "buckets" not in series_read(run, ["a"], points=2000)["a"]
    part = series_read(run, ["a"], points=1000, within=(100, 110))["a"]
    assert part["steps"] == list(range(100, 111))
    assert series_read(run, ["a"], within=(5000, 6000)) == {}
    assert points_read(run, "a").steps.tolist() == list(range(2000))
    assert points_read(run, "none").steps.tolist() == []

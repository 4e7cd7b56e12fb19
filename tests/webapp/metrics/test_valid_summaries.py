"""First, minimum, maximum and last value of a series are those of its valid points: against a naive reading of all points."""

import math
import random
from typing import Any

import pytest

from webapp.metrics import services
from webapp.metrics.models import Series
from webapp.metrics.services import points_store
from webapp.metrics.tasks import compact
from webapp.run_table.filters import runs_filter
from webapp.runs.models import Run
from workers.telemetry.events import MetricsEvent

pytestmark = pytest.mark.django_db
Point = tuple[int, int, float]
"""Attempt, step and value."""


def store(run: Run, attempt: int, points: list[tuple[int, Any]], key: str = "x") -> None:
    """Store one batch."""
    run.event_count += len(points)
    envelope = {"run": "r", "attempt": attempt, "producer": "p", "seq": 1, "time": 1.0, "type": "metrics"}
    events = [
        MetricsEvent.model_validate(envelope | {"step": step, "values": {key: value}})
        for step, value in points
    ]
    points_store(run, attempt, run.event_count, events)


def naive(points: list[Point]) -> tuple[float | None, float | None, float | None, float]:
    """First, minimum, maximum and last of the points in order of arrival."""
    starts = {attempt: min(step for other, step, _ in points if other == attempt) for attempt, _, _ in points}
    valid = [
        value
        for attempt, step, value in points
        if math.isfinite(value)
        and not any(later > attempt and step >= start for later, start in starts.items())
    ]
    last = max(reversed(list(enumerate(points))), key=lambda item: (item[1][0], item[1][1], item[0]))[1][2]
    return (valid[0], min(valid), max(valid), last) if valid else (None, None, None, last)


def summary(run: Run) -> tuple[float | None, float | None, float | None, float]:
    row = Series.objects.get(run=run, key="x")
    return row.first_value, row.min_value, row.max_value, row.last_value


@pytest.mark.parametrize("narrow", [1000, 0])
@pytest.mark.parametrize("seed", range(8))
def test_resumed_late_and_repeated_points(
    run: Run, monkeypatch: pytest.MonkeyPatch, narrow: int, seed: int
) -> None:
    monkeypatch.setattr(services, "NARROW", narrow)
    monkeypatch.setattr("webapp.metrics.selectors.NARROW", narrow)
    draw, points = random.Random(seed), []
    for _ in range(8):
        attempt, start = draw.choice([1, 1, 2, 3]), draw.randrange(12)
        batch = [
            (step, draw.choice([draw.random(), math.nan]))
            for step in range(start, start + draw.randint(1, 4))
        ]
        store(run, attempt, [(step, "NaN" if math.isnan(value) else value) for step, value in batch])
        points += [(attempt, step, value) for step, value in batch]
        compact()
        seen, expected = summary(run), naive(points)
        assert seen[:3] == pytest.approx(expected[:3]) and repr(seen[3]) == repr(expected[3])


def test_a_filter_does_not_find_a_spike_that_was_repeated(run: Run) -> None:
    store(run, 1, [(step, 100.0 if step == 13 else 1.0) for step in range(16)], "val/x")
    assert runs_filter(Run.objects.all(), "val/x:max > 50").exists()
    store(run, 2, [(step, 2.0) for step in range(10, 20)], "val/x")
    assert not runs_filter(Run.objects.all(), "val/x:max > 50").exists()
    assert runs_filter(Run.objects.all(), "val/x:min = 1 and val/x:max = 2 and val/x = 2").exists()


def test_the_change_in_the_table_of_runs_is_from_the_first_valid_value(run: Run) -> None:
    store(run, 1, [(0, 0.125), (1, 0.25)], "train/return")
    store(run, 2, [(0, 0.5), (1, 0.75)], "train/return")
    assert run.headline["first"]["train/return"] == 0.5 and run.headline["train/return"] == 0.75

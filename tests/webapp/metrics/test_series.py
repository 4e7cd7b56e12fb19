"""Series: what is stored comes back, in the right order, once; nothing that stands out is lost when it is drawn or summed up."""

import csv
import io
import math
import random
from typing import Any

import numpy as np
import pytest

from webapp.metrics import services
from webapp.metrics.api import series_csv
from webapp.metrics.arrays import for_charts
from webapp.metrics.models import Block, Chunk, Series
from webapp.metrics.selectors import kept_indices, keys, points_after, series_read
from webapp.metrics.services import blocks_compact, points_store, series_compact
from webapp.metrics.tasks import compact, compact_run
from webapp.run_table.filters import runs_filter
from webapp.runs.lifecycle import run_move
from webapp.runs.models import Run, RunState
from workers.telemetry.events import MetricsEvent


def event(step: int, values: dict[str, Any], time: float = 1.0, attempt: int = 1) -> MetricsEvent:
    return MetricsEvent(
        run="r", attempt=attempt, producer="p", seq=1, time=time, type="metrics", step=step, values=values
    )


def store(run: Run, *events: MetricsEvent) -> None:
    run.event_count += len(events)
    points_store(run, events[0].attempt, run.event_count, list(events))


def to_chunks(run: Run) -> None:
    """Move all points to chunks, as for a run that has ended."""
    for group in set(run.blocks.values_list("group", flat=True)):
        blocks_compact(run.pk, group, ended=True)


@pytest.mark.parametrize(
    ("values", "rounded"),
    [
        ([0.1257302210933933, 2.0], [0.12573, 2.0]),
        ([1e-9 / 3, 0.5], [3.33333e-10, 0.5]),
        ([9_300_000_000.123456, 9_300_000_001.5], [9_300_000_000.12346, 9_300_000_001.5]),
        ([9_300_000_000.75, 0.0], [9_300_000_001.0, 0.0]),
        ([1 / 3, 1 / 3], [0.333333, 0.333333]),
        ([math.nan, math.inf, -1 / 3, 5e-324], [math.nan, math.inf, -0.333333, 5e-324]),
        ([], []),
    ],
)
def test_numbers_are_rounded_for_charts(values: list[float], rounded: list[float]) -> None:
    np.testing.assert_array_equal(for_charts(np.array(values)), np.array(rounded))


@pytest.mark.django_db
class TestReading:
    def test_a_csv_file_has_every_name_and_no_formula(self, run: Run) -> None:
        names = ["loss", '"a" b', "=1+1", "@x", "奖励", "<b>", "-1"]
        store(run, event(1, dict.fromkeys(names, 2.0)))
        rows = list(csv.reader(io.StringIO(b"".join(series_csv(run)).decode())))
        assert {row[0] for row in rows[1:]} == {"loss", '"a" b', "'=1+1", "'@x", "奖励", "<b>", "-1"}
        assert all(row[1:] == ["1", "1", "1.0", "2.0"] for row in rows[1:])

    def test_points_come_back_as_they_were(self, run: Run) -> None:
        store(run, event(1, {"a": 0.5, "b": 2}, 10.0), event(2, {"a": 0.25}, 11.0))
        store(run, event(3, {"a": 0.125}, 12.0))
        assert series_read(run, ["a", "b", "none"]) == {
            "a": {
                "steps": [1, 2, 3],
                "values": [0.5, 0.25, 0.125],
                "times": [10.0, 11.0, 12.0],
                "attempts": [1, 1, 1],
            },
            "b": {"steps": [1], "values": [2.0], "times": [10.0], "attempts": [1]},
        }
        facts = {row.key: row for row in keys(run)}
        last = facts["a"]
        assert (last.count, last.last_step, last.last_value, last.last_time) == (3, 3, 0.125, 12.0)

    def test_late_and_repeated_steps_are_kept_and_sorted(self, run: Run) -> None:
        store(run, event(5, {"a": 1.0}), event(2, {"a": 2.0}), event(5, {"a": 3.0}))
        store(run, event(1, {"a": 4.0}))
        read = series_read(run, ["a"])["a"]
        assert read["steps"] == [1, 2, 5, 5]
        assert read["values"] == [4.0, 2.0, 1.0, 3.0]
        facts = keys(run)[0]
        assert (facts.count, facts.last_step, facts.last_value) == (4, 5, 3.0)

    def test_attempts_stand_side_by_side_and_the_newest_is_last(self, run: Run) -> None:
        store(run, *[event(step, {"a": step}) for step in (1, 2, 3)])
        store(run, event(2, {"a": 20.0}, attempt=2))
        store(run, event(4, {"a": 4.0}))  # the old attempt speaks once more
        read = series_read(run, ["a"])["a"]
        assert list(zip(read["steps"], read["attempts"], read["values"], strict=True)) == [
            (1, 1, 1.0), (2, 1, 2.0), (2, 2, 20.0), (3, 1, 3.0), (4, 1, 4.0),
        ]  # fmt: skip
        assert (keys(run)[0].last_step, keys(run)[0].last_value) == (2, 20.0)

    @pytest.mark.parametrize("batches", [1, 2])
    def test_the_last_value_of_a_step_has_the_latest_time(self, run: Run, batches: int) -> None:
        points = [event(5, {"a": 2.0}, time=20.0), event(5, {"a": 1.0}, time=10.0)]
        for some in [points] if batches == 1 else [[point] for point in points]:
            store(run, *some)
        assert keys(run)[0].last_value == 2.0

    def test_numbers_that_json_lacks_are_words(self, run: Run) -> None:
        store(
            run,
            *(event(step, {"a": value}) for step, value in enumerate(["NaN", "Infinity", "-Infinity", 1])),
        )
        assert series_read(run, ["a"])["a"]["values"] == ["NaN", "Infinity", "-Infinity", 1.0]
        store(run, event(5, {"a": "NaN"}))
        assert keys(run)[0].last_value == "NaN"

    def test_since_reads_only_what_is_new(self, run: Run) -> None:
        store(run, event(1, {"a": 1}), event(2, {"a": 2}))
        cursor = run.event_count
        store(run, event(3, {"a": 3, "b": 1}))
        assert series_read(run, ["a"], since=cursor)["a"]["steps"] == [3]
        assert series_read(run, ["a"], since=run.event_count) == {}
        assert series_read(run, ["a"], until=cursor)["a"]["steps"] == [1, 2]
        assert points_after(run, cursor, run.event_count) == {
            "a": [[3, 3.0, 1.0, 1]],
            "b": [[3, 1.0, 1.0, 1]],
        }
        assert points_after(run, 0, cursor) == {"a": [[1, 1.0, 1.0, 1], [2, 2.0, 1.0, 1]]}

    def test_a_delta_of_too_many_points_is_none(self, run: Run) -> None:
        store(run, *[event(step, {"a": step}) for step in range(5000)])
        assert len(points_after(run, 0, run.event_count)["a"]) == 5000  # type: ignore[index]
        store(run, event(1, {"a": 1}))
        assert points_after(run, 0, run.event_count) is None


@pytest.mark.django_db
class TestCompaction:
    @pytest.mark.parametrize("moved", [False, True])
    def test_merging_changes_nothing_that_is_read(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, moved: bool
    ) -> None:
        monkeypatch.setattr(services, "CHUNKED", 1 if moved else 1000)
        generator = np.random.default_rng(0)
        cursors = []
        for step in range(250):
            attempt = 1 if step < 150 else 2
            value = float(generator.normal()) if step % 9 else "NaN"
            store(run, event(step % 170, {"a": value, "b": step}, step, attempt))
            cursors.append(run.event_count)
        before = [series_read(run, ["a", "b"], since=cursor) for cursor in (0, cursors[99], cursors[200])]
        deltas = [points_after(run, cursors[i], cursors[i + 60]) for i in (0, 120, 180)]
        assert compact() == 250 - (1 if moved else 2)
        assert Chunk.objects.count() == (4 if moved else 0)
        assert {series.chunk_count for series in Series.objects.all()} == {2 if moved else 0}
        assert [
            series_read(run, ["a", "b"], since=cursor) for cursor in (0, cursors[99], cursors[200])
        ] == before
        assert [points_after(run, cursors[i], cursors[i + 60]) for i in (0, 120, 180)] == deltas
        store(run, event(1000, {"a": 1.0}, attempt=2))
        assert series_read(run, ["a"])["a"]["steps"][-1] == 1000

    def test_merged_chunks_merge_again(self, run: Run) -> None:
        for step in range(6):
            store(run, event(step, {"a": step}))
            to_chunks(run)
            series_compact(Series.objects.get().pk)
        assert Chunk.objects.count() == 1 and Block.objects.get().count == 0
        assert series_read(run, ["a"], since=4)["a"]["steps"] == [4, 5]

    def test_few_blocks_and_chunks_are_left_alone(self, run: Run) -> None:
        for step in range(208):
            store(run, event(step, {"a": step}))
            if step < 200:
                to_chunks(run)
        assert compact() == 0
        store(run, event(208, {"a": 208}))
        to_chunks(run)
        assert compact() == 200

    def test_chunks_of_an_ended_run_are_merged(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
    ) -> None:
        sent: list[tuple[Any, ...]] = []
        monkeypatch.setattr("webapp.metrics.services.enqueue", lambda *words: sent.append(words))
        for step in range(9):
            store(run, event(step, {"a": step, "b": 1.0}))
        with django_capture_on_commit_callbacks(execute=True):
            run_move(run, RunState.STOPPED)
        assert sent == [(compact_run.name, run.pk)]
        assert compact_run(run.pk) == 8
        assert sorted(chunk.count for chunk in Chunk.objects.all()) == [9, 9]
        assert series_read(run, ["a"])["a"]["values"] == [float(step) for step in range(9)]

    def test_very_many_points_are_moved_in_parts(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(services, "MOST_MOVED", 8)
        monkeypatch.setattr(services, "LARGEST_CHUNK", 3)
        for step in range(11):
            store(run, event(step, {"a": step, "b": -step}))
        assert compact() == 2 * (4 - 1)
        assert sorted(chunk.count for chunk in Chunk.objects.all()) == [1, 1, 1, 1, 3, 3, 3, 3]
        assert series_read(run, ["b"])["b"]["values"] == [-float(step) for step in range(11)]

    def test_large_chunks_are_left_alone(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("webapp.metrics.services.LARGEST_CHUNK", 10)
        for step in range(35):
            store(run, event(step, {"a": step}))
            to_chunks(run)
        series_compact(Series.objects.get().pk)
        assert sorted(chunk.count for chunk in Chunk.objects.all()) == [5, 10, 10, 10]
        assert series_read(run, ["a"])["a"]["values"] == [float(step) for step in range(35)]


@pytest.mark.django_db
class TestHeadline:
    def test_last_values_and_curve(self, run: Run) -> None:
        store(run, event(1, {"train/return": 0.5, "policy/p/loss": 1.0}), event(0, {"eval/success": 0.25}))
        store(run, event(2, {"train/return": 1.5}), event(2, {"eval_sampled/success": "NaN"}))
        run.refresh_from_db()
        assert run.headline == {
            "train/return": 1.5,
            "eval/success": 0.25,
            "eval_sampled/success": "NaN",
            "first": {"train/return": 0.5, "eval/success": 0.25},
            "spark": {"key": "train/return", "stride": 1, "values": [None, 0.5, 1.5], "counts": [0, 1, 1]},
        }

    def test_first_and_extremes_are_of_finite_values(self, run: Run) -> None:
        batches = [["NaN", 3.0, -1.0], ["Infinity", 7.0], ["-Infinity"], [2.0]]
        step = 0
        for batch in batches:
            store(run, *(event(step := step + 1, {"a": value, "b": "NaN"}) for value in batch))
        found = {row.key: (row.first_value, row.min_value, row.max_value) for row in Series.objects.all()}
        assert found == {"a": (3.0, -1.0, 7.0), "b": (None, None, None)}
        assert run.headline == {}

    def test_curve_has_at_most_forty_buckets_of_means(self, run: Run) -> None:
        values = [float(step % 7) for step in range(100)]
        for step, value in enumerate(values):
            store(run, event(step, {"train/return": value if step != 50 else "NaN"}))
        spark = run.headline["spark"]
        assert spark["stride"] == 4
        for bucket, mean in enumerate(spark["values"]):
            members = [values[step] for step in range(bucket * 4, bucket * 4 + 4) if step != 50]
            assert mean == pytest.approx(sum(members) / len(members))
        assert len(spark["values"]) == 25


class TestDownsampling:
    def test_all_points_stay_when_they_fit(self) -> None:
        assert kept_indices(np.arange(10.0), 10).tolist() == list(range(10))

    def test_small_case_by_hand(self) -> None:
        values = np.array([1.0, 9.0, 0.0, 2.0, 5.0, 3.0, 3.0, 4.0, 6.0, 7.0, -1.0, 2.0])
        # two buckets of six: first 1, greatest 9, least 0, last 3 | first 3, greatest 7, least -1, last 2
        assert kept_indices(values, 8).tolist() == [0, 1, 2, 5, 6, 9, 10, 11]

    @pytest.mark.parametrize("spike", [1e9, -1e9, math.inf, -math.inf, math.nan])
    @pytest.mark.parametrize("place", [0, 1, 4999, 77_777, 99_998, 99_999])
    def test_a_spike_never_disappears(self, spike: float, place: int) -> None:
        values = np.sin(np.arange(100_000) / 1000)
        values[place] = spike
        kept = kept_indices(values, 1500)
        assert place in kept
        assert len(kept) <= 1500 + 2
        assert kept[0] == 0
        assert kept[-1] == 99_999

    def test_a_spike_among_nans_stays(self) -> None:
        values = np.full(50_000, np.nan)
        values[12_345] = 7.0
        kept = kept_indices(values, 400)
        assert 12_345 in kept
        assert 90 <= np.isnan(values[kept]).sum() <= 102

    def test_steps_do_not_matter(self) -> None:
        kept = kept_indices(np.ones(5000), 400)
        assert 100 <= len(kept) <= 402
        assert (np.diff(kept) > 0).all()


Point = tuple[int, int, float]
"""Attempt, step and value."""


def store_points(run: Run, attempt: int, points: list[tuple[int, Any]], key: str = "x") -> None:
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
        store_points(run, attempt, [(step, "NaN" if math.isnan(value) else value) for step, value in batch])
        points += [(attempt, step, value) for step, value in batch]
        compact()
        seen, expected = summary(run), naive(points)
        assert seen[:3] == pytest.approx(expected[:3]) and repr(seen[3]) == repr(expected[3])


def test_a_filter_does_not_find_a_spike_that_was_repeated(run: Run) -> None:
    store_points(run, 1, [(step, 100.0 if step == 13 else 1.0) for step in range(16)], "val/x")
    assert runs_filter(Run.objects.all(), "val/x:max > 50").exists()
    store_points(run, 2, [(step, 2.0) for step in range(10, 20)], "val/x")
    assert not runs_filter(Run.objects.all(), "val/x:max > 50").exists()
    assert runs_filter(Run.objects.all(), "val/x:min = 1 and val/x:max = 2 and val/x = 2").exists()


def test_the_change_in_the_table_of_runs_is_from_the_first_valid_value(run: Run) -> None:
    store_points(run, 1, [(0, 0.125), (1, 0.25)], "train/return")
    store_points(run, 2, [(0, 0.5), (1, 0.75)], "train/return")
    assert run.headline["first"]["train/return"] == 0.5 and run.headline["train/return"] == 0.75

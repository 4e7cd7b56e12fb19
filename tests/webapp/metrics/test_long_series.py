"""Long series: outlines and buckets by naive loops, and what is read for them."""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.webapp.metrics.test_series import event, store
from webapp.metrics import selectors, services
from webapp.metrics.arrays import pack_floats, pack_ints
from webapp.metrics.models import Chunk, Series
from webapp.metrics.points import (
    GROUP,
    LEAF,
    SHORTEST,
    blocks_read,
    buckets_of,
    outline_of,
    outline_pack,
    outline_unpack,
    superseded,
)
from webapp.metrics.selectors import LONG, points_read, series_read
from webapp.metrics.services import blocks_compact, series_compact
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


POINTS = 40
LENGTH = 4 * LONG * POINTS


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks of a series of ten thousand points."""
    monkeypatch.setattr(services, "LARGEST_CHUNK", 2000)


def stored(run: Run, attempt: int, steps: Any, values: Any, batch: int = 100) -> Series:
    """Store points as batches of ingest, and merge them."""
    series, _ = Series.objects.get_or_create(run=run, key="loss")
    for first in range(0, len(steps), batch):
        part = slice(first, first + batch)
        Chunk.objects.create(
            series=series, attempt=attempt, cursor=first + batch, count=len(steps[part]), first_step=int(min(steps[part])),
            last_step=int(max(steps[part])), steps=pack_ints(steps[part]), values=pack_floats(values[part]),
            times=pack_floats(1e9 + steps[part] * 0.5),
        )  # fmt: skip
    series.count += len(steps)
    series.save()
    series_compact(series.pk)
    return series


def noise(length: int) -> Any:
    return np.random.default_rng(0).normal(0, 1, length)


def naive(steps: list[int], values: list[float]) -> tuple[list[int], list[tuple[int, float, float, float]]]:
    """A loop: the retained places of each leaf, and (count, mean, lowest, highest) of its finite values."""
    retained, leaves = {0, len(values) - 1}, []
    for first in range(0, len(values), LEAF):
        places = range(first, min(first + LEAF, len(values)))
        numbers = [place for place in places if not math.isnan(values[place])]
        odd = [place for place in places if math.isnan(values[place])]
        if numbers:
            retained |= {
                numbers[0], numbers[-1], min(numbers, key=values.__getitem__), max(numbers, key=values.__getitem__),
            }  # fmt: skip
        retained |= set(odd[:1])
        finite = [values[place] for place in places if math.isfinite(values[place])]
        if finite:
            leaves.append((len(finite), sum(finite) / len(finite), min(finite), max(finite)))
    return sorted(retained), leaves


@pytest.mark.parametrize("length", [1, LEAF - 1, LEAF, LEAF + 1, 1000])
@pytest.mark.parametrize("odd", [(), (math.nan,), (math.inf, -math.inf), (math.nan, math.inf)])
def test_an_outline_is_what_a_loop_retains(length: int, odd: tuple[float, ...]) -> None:
    values = noise(length)
    for place, value in enumerate(odd * (length // 5)):
        values[3 * place % length] = value
    steps = np.arange(length)
    outline = outline_unpack(outline_pack(outline_of(steps, values, 1e9 + steps)))
    retained, leaves = naive(steps.tolist(), values.tolist())
    assert set(retained) <= set(outline.steps.tolist())
    assert np.array_equal(outline.values, values[outline.steps], equal_nan=True)
    assert outline.times.tolist() == (1e9 + outline.steps).tolist()
    assert len(outline.steps) <= 5 * -(-length // LEAF) + 2
    assert outline.leaves.counts.tolist() == [leaf[0] for leaf in leaves]
    for column, place in (("means", 1), ("lows", 2), ("highs", 3)):
        assert getattr(outline.leaves, column) == pytest.approx([leaf[place] for leaf in leaves])


def test_points_in_any_order_have_the_outline_of_sorted_ones() -> None:
    values, order = noise(1000), np.random.default_rng(1).permutation(1000)
    steps = np.arange(1000)
    assert outline_pack(outline_of(order, values[order], 1.0 * order)) == outline_pack(outline_of(steps, values, 1.0 * steps))  # fmt: skip


def test_a_long_series_is_drawn_without_its_points(run: Run) -> None:
    steps, values = np.arange(LENGTH), noise(LENGTH)
    values[[777, 5001]] = 50.0, -50.0
    values[6000] = math.nan
    stored(run, 1, steps, values)
    assert all(chunk.outline for chunk in Chunk.objects.filter(count__gte=SHORTEST))
    Chunk.objects.exclude(outline=None).update(values=b"", steps=b"", times=b"")  # reading them would fail
    drawn = series_read(run, ["loss"], POINTS)["loss"]
    assert drawn["steps"] == sorted(drawn["steps"]) and drawn["steps"][0] == 0
    assert drawn["steps"][-1] == LENGTH - 1 and len(drawn["steps"]) <= POINTS * 1.3
    for step, value in zip(drawn["steps"], drawn["values"], strict=True):
        assert value == ("NaN" if step == 6000 else pytest.approx(values[step], rel=1e-5))
    assert {777, 5001, 6000} <= set(drawn["steps"])


def test_buckets_from_outlines_are_means_of_all_points(run: Run) -> None:
    steps, values = np.arange(LENGTH), noise(LENGTH)
    stored(run, 1, steps, values)
    buckets = series_read(run, ["loss"], POINTS)["loss"]["buckets"]
    assert sum(buckets["counts"]) == LENGTH and buckets["steps"][-1] == LENGTH - 1
    first = 0
    for place, count in enumerate(buckets["counts"]):
        part = values[first : first + count].tolist()
        assert buckets["steps"][place] == first + count - 1
        assert buckets["means"][place] == pytest.approx(sum(part) / count, rel=1e-5)
        ends = buckets["lows"][place], buckets["highs"][place]
        assert ends == pytest.approx((min(part), max(part)), rel=1e-5)
        first += count


def test_repeated_points_are_in_no_bucket(run: Run) -> None:
    half = LENGTH // 2
    stored(run, 1, np.arange(LENGTH), np.zeros(LENGTH))
    stored(run, 2, np.arange(half + 17, LENGTH), np.ones(LENGTH - half - 17))
    drawn = series_read(run, ["loss"], POINTS)["loss"]
    assert set(drawn["attempts"]) == {1, 2}
    counts, means = drawn["buckets"]["counts"], drawn["buckets"]["means"]
    assert sum(counts) == LENGTH
    assert sum(count * mean for count, mean in zip(counts, means, strict=True)) == pytest.approx(
        LENGTH - half - 17
    )


@pytest.mark.parametrize("first, last", [(1990, 2030), (1999, 4000), (5, 5), (9000, 9999)])
def test_a_part_of_a_long_series_has_all_of_its_points(run: Run, first: int, last: int) -> None:
    stored(run, 1, np.arange(LENGTH), noise(LENGTH))
    drawn = series_read(run, ["loss"], LENGTH // LONG + 1, within=(first, last))["loss"]
    if last - first < LENGTH // LONG:
        assert drawn["steps"] == list(range(first, last + 1)) and "buckets" not in drawn
    else:
        assert drawn["steps"][0] == first and drawn["steps"][-1] == last
        assert sum(drawn["buckets"]["counts"]) == last - first + 1


def test_points_after_the_cursor_are_not_in_the_outline(run: Run) -> None:
    stored(run, 1, np.arange(LENGTH), noise(LENGTH))
    drawn = series_read(run, ["loss"], POINTS, until=9_900)["loss"]  # the cursor after 99 batches of 100
    assert drawn["steps"][-1] == 9_899 and sum(drawn["buckets"]["counts"]) == 9_900


def test_twenty_long_series_need_as_many_queries_as_one(run: Run) -> None:
    stored(run, 1, np.arange(LENGTH), noise(LENGTH))
    with CaptureQueriesContext(connection) as one:
        series_read(run, ["loss"], POINTS)
    for number in range(19):
        other = Series.objects.create(run=run, key=f"loss/{number}", count=LENGTH)
        chunks = list(Chunk.objects.filter(series__key="loss"))
        for chunk in chunks:
            chunk.pk, chunk.series = None, other
        Chunk.objects.bulk_create(chunks)
    keys = list(Series.objects.filter(run=run).values_list("key", flat=True))
    with CaptureQueriesContext(connection) as many:
        assert len(series_read(run, keys, POINTS)) == 20
    assert len(one) == len(many) <= 5


@pytest.mark.parametrize(("wanted", "moved"), [(POINTS, False), (POINTS, True), (2 * LENGTH, False)])
def test_the_newest_points_are_read_once_while_they_are_moved(
    run: Run, monkeypatch: pytest.MonkeyPatch, wanted: int, moved: bool
) -> None:
    series = stored(run, 1, np.arange(LENGTH), np.ones(LENGTH))
    run.event_count = LENGTH
    for first in range(LENGTH, LENGTH + 300, 100):
        store(run, *(event(step, {"loss": 1.0}) for step in range(first, first + 100)))

    def moving(*arguments: Any) -> Any:
        read = blocks_read(*arguments)
        blocks_compact(run.pk, series.pk // GROUP, ended=True)
        return read

    if moved:
        monkeypatch.setattr(selectors, "blocks_read", moving)
    drawn = series_read(run, ["loss"], wanted)["loss"]
    assert sum(drawn["buckets"]["counts"] if wanted == POINTS else drawn["values"]) == LENGTH + 300
    assert (drawn["steps"][0], drawn["steps"][-1]) == (0, LENGTH + 299)
    assert run.blocks.filter(count__gt=0).exists() != moved


def renewed(series: int) -> None:
    """Replace all chunks, as a merge does."""
    chunks = list(Chunk.objects.filter(series=series).order_by("pk"))
    Chunk.objects.filter(series=series).delete()
    for chunk in chunks:
        chunk.pk = None
    Chunk.objects.bulk_create(chunks)


@pytest.mark.parametrize("reader", ["_heads", "_chunks"])
@pytest.mark.parametrize("merge, often", [(series_compact, False), (renewed, True)])
def test_chunks_merged_between_two_reads_are_read_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, reader: str, merge: Callable[[int], object], often: bool
) -> None:
    series = stored(run, 1, np.arange(LENGTH), np.ones(LENGTH))
    with monkeypatch.context() as patch:
        patch.setattr(services, "_groups", lambda chunks: [])
        stored(run, 1, np.arange(LENGTH, LENGTH + 300), np.ones(300))
    monkeypatch.setattr(services, "LARGEST_CHUNK", 2 * LENGTH)
    read, merges = getattr(selectors, reader), 0

    def merging(*arguments: Any) -> Any:
        nonlocal merges
        rows = read(*arguments)
        if often or not merges:
            merge(series.pk)
        merges += 1
        return rows

    monkeypatch.setattr(selectors, reader, merging)
    drawn = series_read(run, ["loss"], POINTS)["loss"]
    assert merges > 1 and sum(drawn["buckets"]["counts"]) == LENGTH + 300
    assert (drawn["steps"][0], drawn["steps"][-1]) == (0, LENGTH + 299)


@pytest.mark.parametrize("old", [slice(None), slice(1)])
def test_repeated_points_of_earlier_versions_are_in_no_bucket(
    run: Run, monkeypatch: pytest.MonkeyPatch, old: slice
) -> None:
    half = LENGTH // 2 + 17
    stored(run, 1, np.arange(LENGTH), np.zeros(LENGTH))
    monkeypatch.setattr(services, "_groups", lambda chunks: [])
    stored(run, 2, np.arange(half, LENGTH), np.ones(LENGTH - half))
    chunks = list(Chunk.objects.filter(attempt=2).order_by("pk").values_list("pk", flat=True)[old])
    Chunk.objects.filter(pk__in=chunks).update(first_step=None, last_step=None, outline=None)
    assert totals(run) == exact_totals(run, monkeypatch) == (LENGTH, LENGTH - half)


def test_an_attempt_after_the_cursor_repeats_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(run, 1, np.arange(LENGTH), np.ones(LENGTH))
    stored(run, 2, np.arange(5000, LENGTH), np.zeros(LENGTH - 5000))
    Chunk.objects.filter(attempt=2).update(cursor=10_400, cursors=None)
    assert totals(run, until=10_300) == exact_totals(run, monkeypatch, until=10_300) == (LENGTH, LENGTH)


def test_the_migration_reads_each_old_chunk_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(run, 1, np.arange(LENGTH), noise(LENGTH))
    columns = ("pk", "first_step", "last_step", "outline")
    chunks = Chunk.objects.filter(count__gte=SHORTEST).order_by("pk")
    before = [(*row[:3], bytes(row[3])) for row in chunks.values_list(*columns)]
    chunks.update(first_step=None, last_step=None, outline=None)
    migration = import_module("webapp.metrics.migrations.0007_blocks")
    monkeypatch.setattr(migration, "AT_ONCE", 2)
    with CaptureQueriesContext(connection) as queries:
        migration.fill(apps, None)
    assert [(*row[:3], bytes(row[3])) for row in chunks.values_list(*columns)] == before
    reads = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    assert len(before) == 5
    ends = [0, before[1][0], before[3][0], before[4][0]]
    assert all(f'"id" > {end}' in sql for end, sql in zip(ends, reads, strict=True))


def totals(run: Run, **more: Any) -> tuple[int, float]:
    """Return the number and the sum of the points in the buckets."""
    buckets = series_read(run, ["loss"], POINTS, **more)["loss"]["buckets"]
    parts = zip(buckets["counts"], buckets["means"], strict=True)
    return sum(buckets["counts"]), pytest.approx(sum(count * mean for count, mean in parts))


def exact_totals(run: Run, monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[int, float]:
    """Return the totals when all points are read."""
    monkeypatch.setattr(selectors, "LONG", LENGTH)
    return totals(run, **more)

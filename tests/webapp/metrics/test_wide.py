"""Runs with many metrics: the same points and summaries as of a run with few, at a cost that depends on the values sent."""

import random
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from webapp.compare.curves import lines_read
from webapp.health.inputs import _curves
from webapp.metrics import selectors, services
from webapp.metrics.api import series_csv
from webapp.metrics.arrays import pack_floats, pack_ints
from webapp.metrics.models import Block, Chunk, Series
from webapp.metrics.points import GROUP, unpack
from webapp.metrics.selectors import keys, points_after, points_read, series_read
from webapp.metrics.services import NameCache, points_store
from webapp.metrics.tasks import compact
from webapp.runs.models import Run
from workers.telemetry.events import MetricsEvent

pytestmark = pytest.mark.django_db
NAMES = [f"layer_{number}/norm" for number in range(30)]


def event(step: int, values: dict[str, Any], attempt: int = 1) -> MetricsEvent:
    return MetricsEvent(
        run="r", attempt=attempt, producer="p", seq=1, time=step * 2.0 + attempt, type="metrics", step=step, values=values
    )  # fmt: skip


def store(run: Run, *events: MetricsEvent) -> None:
    run.event_count += len(events)
    points_store(run, events[0].attempt, run.event_count, list(events))


def twin(run: Run) -> Run:
    """Another run of the same config."""
    return Run.objects.create(
        project=run.project, owner=run.owner, name="twin", config=run.config, iterations=1
    )


def in_chunks(run: Run) -> None:
    """Store the points of each batch and series in a chunk, as earlier versions did."""
    for block in run.blocks.order_by("pk"):
        for series, points in unpack(block).by_series().items():
            Chunk.objects.create(
                series_id=series, attempt=block.attempt, cursor=block.cursor, count=len(points.steps),
                steps=pack_ints(points.steps), values=pack_floats(points.values), times=pack_floats(points.times),
            )  # fmt: skip
    run.blocks.all().delete()


def facts(run: Run) -> dict[str, Any]:
    rows = Series.objects.filter(run=run).order_by("key")
    names = [
        "count", "last_attempt", "last_step", "last_value", "last_time", "first_value", "min_value", "max_value",
    ]  # fmt: skip
    return {row.key: [repr(getattr(row, name)) for name in names] for row in rows}


def read(run: Run, cursor: int) -> list[Any]:
    """Everything that readers see of a run."""
    tails = _curves(run, dict(run.series.values_list("id", "key")))
    lines = {key: lines_read([run], f'"{key}"').get(run.pk) for key in NAMES[:9]}
    return [
        series_read(run, NAMES),
        series_read(run, NAMES, since=cursor),
        series_read(run, NAMES, until=cursor, within=(2, 9)),
        repr(points_read(run, NAMES[7]).values.tolist()),
        b"".join(series_csv(run)).decode().splitlines(),
        {key: (tail.steps.tolist(), repr(tail.values.tolist())) for key, tail in tails.items()},
        {key: line and (line.x.tolist(), line.y.tolist()) for key, line in lines.items()},
    ]


def values_of(draw: random.Random) -> dict[str, Any]:
    """Values of some of the metrics."""
    return {
        name: draw.choice([draw.random(), draw.random(), "NaN", "-Infinity", 3])
        for name in draw.sample(NAMES, 12)
    }


def planned_rows() -> int:
    """The number of series that the query planner assumes; ANALYZE sets it, also in a transaction that is rolled back."""
    with connection.cursor() as database:
        database.execute("SELECT reltuples FROM pg_class WHERE relname = 'metrics_series'")
        return int(database.fetchone()[0])


def test_many_new_metrics_are_counted_for_the_query_planner(
    run: Run, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    """Else foreign keys of chunks are checked with a plan that reads the whole table, 1,000 times for each batch."""
    monkeypatch.setattr(services, "NARROW", 10)
    count = 29 if planned_rows() == 28 else 28
    with django_capture_on_commit_callbacks(execute=True):
        store(run, event(1, dict.fromkeys(NAMES[:count], 1.0)))
    assert planned_rows() == count


@pytest.mark.parametrize(
    ("merged", "narrow"),
    [
        pytest.param(merged, narrow, marks=[] if narrow == 7 or merged == "not" else pytest.mark.extended)
        for merged in ("not", "merged", "moved")
        for narrow in (0, 7, 29)
    ],
)
def test_points_in_blocks_are_read_as_those_in_chunks(
    run: Run, monkeypatch: pytest.MonkeyPatch, narrow: int, merged: str
) -> None:
    draw, other = random.Random(narrow), twin(run)
    batches = []
    for number in range(24):
        attempt = 1 if number < 14 or number == 20 else 2
        steps = [max(1, number - 6 * (attempt - 1)), draw.randrange(1, 20)]
        batches.append([event(step, values_of(draw), attempt) for step in steps])
    for events in batches:
        store(other, *events)
    in_chunks(other)
    monkeypatch.setattr(services, "MANY_BLOCKS", 3)
    monkeypatch.setattr(services, "CHUNKED", 3 if merged == "moved" else 1000)
    monkeypatch.setattr(services, "NARROW", narrow)
    monkeypatch.setattr(selectors, "NARROW", narrow)
    for number, events in enumerate(batches):
        store(run, *events)
        if merged != "not" and number % 9 == 8:
            compact()
    assert Block.objects.filter(count=0).exists() == (merged == "moved")
    assert Series.objects.filter(run=run, wide=True).count() == run.series_count - narrow
    cursor = 31
    assert read(run, cursor) == read(other, cursor)
    compact()
    assert facts(run) == facts(other)
    assert read(run, cursor) == read(other, cursor)
    assert [(row.key, row.count) for row in keys(run)] == [(row.key, row.count) for row in keys(other)]


def test_a_delta_has_new_points_of_blocks_until_they_are_moved(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "NARROW", 1)
    monkeypatch.setattr(selectors, "NARROW", 1)
    store(run, event(1, {"a": 1, "b": 1, "c": 1}))
    store(run, event(2, {"a": 2, "b": "NaN"}), event(3, {"c": 3}))
    assert points_after(run, 1, 3) == {
        "a": [[2, 2.0, 5.0, 1]],
        "b": [[2, "NaN", 5.0, 1]],
        "c": [[3, 3.0, 7.0, 1]],
    }
    monkeypatch.setattr(services, "CHUNKED", 1)
    compact()
    assert points_after(run, 1, 3) is None, "clients read the series again"
    store(run, event(4, {"c": 4}))
    assert points_after(run, 3, 4) == {"c": [[4, 4.0, 9.0, 1]]}
    compact()
    monkeypatch.setattr(selectors, "MANY_POINTS", 1)
    store(run, event(5, {"b": 5, "c": 5}))
    assert points_after(run, 4, 5) is None and points_after(run, 5, 5) == {}


def test_a_fresh_metric_has_its_last_value_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "NARROW", 0)
    store(run, event(3, {"a": 1.5, "eval/success": 0.5}), event(4, {"a": "Infinity", "eval/success": 0.75}))
    fresh = Series.objects.get(run=run, key="a")
    assert (fresh.wide, fresh.last_step, fresh.last_value, fresh.max_value) == (True, 4, float("inf"), 1.5)
    assert not Series.objects.get(run=run, key="eval/success").wide, "tables show it"
    assert run.headline["eval/success"] == 0.75


def test_a_batch_of_twenty_thousand_metrics_makes_few_rows(run: Run) -> None:
    names = [f"layer_{number}/norm" for number in range(20_000)]
    events = [
        event(1, dict.fromkeys(names[first : first + 1000], 0.5)) for first in range(0, len(names), 1000)
    ]
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as asked:
            store(run, *events)
        counts.append((len(asked), sum(len(query["sql"]) for query in asked) / len(names)))
    assert run.series_count == 20_000
    assert counts[1][0] <= 8 and counts[1][1] < 30, "queries, and characters of SQL for each value"
    blocks = Block.objects.count() // 2
    assert blocks <= 20_000 // GROUP + 3 and not Chunk.objects.exists()
    assert points_after(run, 20, 40) is None
    store(run, event(2, {names[5]: 1.0, names[-1]: 2.0}))
    with CaptureQueriesContext(connection) as asked:
        assert set(points_after(run, 40, 41) or {}) == {names[5], names[-1]}
    assert len(asked) <= 6 and sum(len(query["sql"]) for query in asked) < 30_000
    with CaptureQueriesContext(connection) as asked:
        assert len(series_read(run, names[-40:])) == 40
    assert len(asked) <= 4


def test_the_cache_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.metrics.services.MOST_NAMES", 5)
    cache = NameCache()
    one, two, three = (Run(pk=name, created_at=timezone.now()) for name in ("one", "two", "three"))
    cache.add(one, {"a": (1, True), "b": (2, False)})
    cache.add(two, {"a": (3, True), "b": (4, True), "c": (5, True)})
    assert cache.series(one, ["a", "b", "z"]) == {"a": (1, True), "b": (2, False)}
    cache.add(three, {"d": (6, True)})
    assert cache.count == 3 and not cache.series(two, ["a"]) and cache.series(one, ["a"])
    cache.add(one, {str(number): (number, True) for number in range(9)})
    assert cache.count == 0


def test_a_run_with_the_id_of_a_removed_one_keeps_its_points(
    run: Run, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    monkeypatch.setattr(services, "NARROW", 0)
    monkeypatch.setattr(selectors, "NARROW", 0)
    for step in (1, 2):
        with django_capture_on_commit_callbacks(execute=True):
            store(run, event(step, {"a": 1.5}))
    facts = {name: getattr(run, name) for name in ("project", "owner", "name", "config", "iterations")}
    pk = run.pk
    run.delete()
    again = Run.objects.create(pk=pk, **facts)
    store(again, event(1, {"a": 2.5}))
    assert points_read(again, "a").values.tolist() == [2.5]


def test_names_of_a_transaction_without_effect_are_not_remembered(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "NARROW", 0)
    monkeypatch.setattr(selectors, "NARROW", 0)
    with suppress(InterruptedError), transaction.atomic():
        for step in (1, 2):
            store(run, event(step, {"a": 1.5}))
        raise InterruptedError
    run.refresh_from_db()
    store(run, event(3, {"a": 2.5}))
    assert points_read(run, "a").values.tolist() == [2.5]


def test_a_delta_has_points_that_earlier_versions_stored(run: Run) -> None:
    store(run, event(1, {"a": 1}))
    store(run, event(2, {"a": 2, "b": 3}))
    in_chunks(run)
    run.save()
    with connection.cursor() as database:
        database.execute(import_module("webapp.metrics.migrations.0008_newest_points").MARK)
    store(run, event(3, {"b": 4}))
    assert points_after(run, 1, 3) == {"a": [[2, 2.0, 5.0, 1]], "b": [[2, 3.0, 5.0, 1], [3, 4.0, 7.0, 1]]}
    assert points_after(run, 2, 3) == {"b": [[3, 4.0, 7.0, 1]]}

"""Several senders at once: the row lock keeps every event single and every cursor in order."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection

from webapp.ingest.batches import IngestRejected
from webapp.ingest.services import batch_store
from webapp.metrics.models import Chunk
from webapp.metrics.selectors import series_read
from webapp.metrics.services import series_compact
from webapp.runs.models import Attempt, Run

pytestmark = pytest.mark.django_db(transaction=True)
Make = Callable[..., dict[str, Any]]


def closing(act: Callable[..., Any]) -> Callable[..., Any]:
    """Threads of a test end their own database connection."""

    def wrapped(*words: Any) -> Any:
        try:
            return act(*words)
        finally:
            connection.close()

    return wrapped


def test_the_same_batches_from_many_threads_are_stored_once(run: Run, event: Make) -> None:
    bodies = [
        b"\n".join(json.dumps(event(seq)).encode() for seq in range(first, first + 5))
        for first in range(1, 51, 5)
    ]

    def send_all(_: int) -> int:
        for body in bodies:
            while True:
                try:
                    last = batch_store(run.pk, body, "").acknowledged
                except IngestRejected as rejected:
                    assert rejected.status == 409
                else:
                    break
        return last

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(closing(send_all), range(4))) == [50] * 4
    run.refresh_from_db()
    assert run.event_count == 50
    assert series_read(run, ["train/return"])["train/return"]["steps"] == list(range(1, 51))


def test_producers_side_by_side_and_merging_meanwhile(run: Run, event: Make) -> None:
    def produce(number: int) -> None:
        for seq in range(1, 26):
            fields = {"producer": f"p{number}", "step": number * 100 + seq}
            batch_store(run.pk, json.dumps(event(seq, **fields)).encode(), "")

    def merge(_: int) -> None:
        for _ in range(10):
            for chunk in Chunk.objects.all()[:1]:
                series_compact(chunk.series_id)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(closing(produce), number) for number in range(3)] + [
            pool.submit(closing(merge), 0)
        ]
        for future in futures:
            future.result()
    run.refresh_from_db()
    assert run.event_count == 75
    steps = series_read(run, ["train/return"])["train/return"]["steps"]
    assert steps == sorted(number * 100 + seq for number in range(3) for seq in range(1, 26))
    later = series_read(run, ["train/return"], since=40)["train/return"]["steps"]
    assert len(later) == 35


def test_a_database_that_is_away_says_try_again(
    attempt: Attempt, event: Make, send: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise OperationalError("the database system is shutting down")

    monkeypatch.setattr("webapp.ingest.views.batch_store", away)
    assert send(event(1)).status_code == 503

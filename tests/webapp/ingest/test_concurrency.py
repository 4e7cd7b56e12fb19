"""Events of several requests at once, and of a real reporter."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from troupe_client.reporting.sync import ship_spool, undelivered
from webapp.ingest.batches import IngestRejected
from webapp.ingest.services import batch_store
from webapp.metrics.models import Block, Chunk
from webapp.metrics.selectors import series_read
from webapp.metrics.services import blocks_compact, series_compact
from webapp.runs.models import Attempt, LogLine, Run
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder

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
            for block in Block.objects.filter(count__gt=0)[:1]:
                blocks_compact(run.pk, block.group, ended=True)
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


@pytest.fixture
def url(live_server: Any, run: Run, attempt: Attempt) -> str:
    return f"{live_server.url}/api/v1/runs/{run.pk}/events/"


def test_a_run_is_told_whole(run: Run, url: str, token: str, tmp_path: Path) -> None:
    reporter = Reporter(RunFolder(tmp_path), run.pk, 1, url, token)
    for step in range(1, 201):
        reporter.metrics(step, {"train/return": step / 2, "a": float("nan")})
    assert reporter.close()
    run.refresh_from_db()
    assert run.event_count == reporter.seq
    assert series_read(run, ["train/return"])["train/return"]["values"] == [
        step / 2 for step in range(1, 201)
    ]
    assert series_read(run, ["a"])["a"]["values"] == ["NaN"] * 200
    assert ship_spool(tmp_path, url, token).events == 0


def test_what_the_server_refuses_is_seen_in_the_log(run: Run, url: str, token: str, tmp_path: Path) -> None:
    reporter = Reporter(RunFolder(tmp_path), run.pk, 1, url, token)
    reporter.metrics(1, {"train/return": 1.0})
    reporter.metrics(2, {"a,b": 1.0})
    reporter.phase("driver", "dancing", 1, 1.0, 2.0)
    reporter.metrics(3, {"train/return": 3.0})
    assert reporter.close()
    assert series_read(run, ["train/return"])["train/return"]["steps"] == [1, 3]
    messages = list(LogLine.objects.order_by("id").values_list("message", flat=True))
    assert len(messages) == 2
    assert "metrics event" in messages[0]
    assert "phase event" in messages[1]


def test_a_newer_attempt_sends_the_old_one_home(run: Run, url: str, token: str, tmp_path: Path) -> None:
    Attempt.objects.create(run=run, number=2, submission_id="two")
    reporter = Reporter(RunFolder(tmp_path), run.pk, 1, url, token)
    reporter.metrics(1, {"a": 1.0})
    assert reporter.close()
    assert reporter.command == "exit"


def test_a_revoked_token_keeps_everything_on_disk(run: Run, url: str, tmp_path: Path) -> None:
    reporter = Reporter(RunFolder(tmp_path), run.pk, 1, url, "trp_wrong")
    reporter.metrics(1, {"a": 1.0})
    assert not reporter.close(timeout=0.5)
    assert undelivered(tmp_path) == 1

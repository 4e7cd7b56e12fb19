"""What a dead run left on disk is stored without a server in between, once, and what cannot be stored is told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from webapp.ingest.services import DirectChannel, spool_store
from webapp.metrics.selectors import series_read
from webapp.runs.models import Attempt, LogLine, Run
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder
from workers.telemetry.delivery import ServerResponse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("attempt")]


def told(run: Run, folder: RunFolder, attempt: int = 1) -> Reporter:
    """A reporter that never reached a server."""
    reporter = Reporter(folder, run.pk, attempt)
    reporter.metrics(1, {"a": 1.0})
    reporter.metrics(2, {"a,b": 2.0})
    reporter.metrics(3, {"a": float("inf")})
    reporter.close()
    return reporter


def test_a_spool_is_stored_once(run: Run, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    told(run, folder)
    for _ in range(2):
        assert spool_store(run.pk, folder.spool(1))
    run.refresh_from_db()
    assert run.event_count == 3
    assert series_read(run, ["a"])["a"]["values"] == [1.0, "Infinity"]
    assert "rejected.jsonl" in LogLine.objects.get().message


def test_a_spool_is_stored_although_another_one_left_rejected_events(run: Run, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    told(run, folder)
    assert spool_store(run.pk, folder.spool(1))
    (rejected,) = folder.spool(1).glob("*.rejected.jsonl")
    later = folder.spool(1) / f"{told(run, folder).producer}.jsonl"
    later.rename(folder.spool(1) / f"{rejected.name}.jsonl")  # read after the rejected ones
    assert spool_store(run.pk, folder.spool(1))
    assert series_read(run, ["a"])["a"]["steps"] == [1, 1, 3, 3]


def test_a_batch_is_answered_as_over_http(run: Run, event: Callable[..., dict[str, Any]]) -> None:
    channel = DirectChannel(run.pk)
    body = zstandard.compress(json.dumps(event(1)).encode())
    assert channel.post(body) == ServerResponse(200, {"acknowledged": 1, "command": None})
    late = zstandard.compress(json.dumps(event(3)).encode())
    assert channel.post(late) == ServerResponse(409, {"code": "gap", "expected": 2})


def test_two_producers_and_a_torn_line(run: Run, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    told(run, folder)
    spool = folder.spool(1) / f"{told(run, folder).producer}.jsonl"
    with spool.open("ab") as file:
        file.write(b'{"run":')
    spool_store(run.pk, folder.spool(1))
    assert series_read(run, ["a"])["a"]["steps"] == [1, 1, 3, 3]


def test_what_belongs_nowhere_stays_on_disk(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = RunFolder(tmp_path)
    producer = told(run, folder, attempt=2).producer
    assert not spool_store(run.pk, folder.spool(2))
    assert f"run {run.pk}: the spool {producer}.jsonl was not stored completely: " in caplog.text
    assert f"run {run.pk} has no attempt 2" in caplog.text
    Attempt.objects.create(run=run, number=2, submission_id="two")
    spool_store(run.pk, folder.spool(2))
    assert series_read(run, ["a"])["a"]["attempts"] == [2, 2]

"""The real reporter against the real view over HTTP: both halves of the protocol agree."""

from pathlib import Path
from typing import Any

import pytest

from troupe_client.reporting.sync import ship_spool, undelivered
from webapp.metrics.selectors import series_read
from webapp.runs.models import Attempt, LogLine, Run
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder

pytestmark = pytest.mark.django_db(transaction=True)


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

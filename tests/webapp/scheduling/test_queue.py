"""The database is the queue: a broker that is away costs time only; two workers at once submit once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from celery import Celery
from django.db import connection

from webapp.common import task_queue
from webapp.runs import lifecycle
from webapp.runs.models import Attempt, Run
from webapp.scheduling.submission import run_submit_now
from workers.launchers.fake import FakeLauncher
from workers.launchers.launcher import Capacity


def test_a_broker_that_does_not_answer_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away = Celery(broker=f"redis+socket://{tmp_path}/none.sock", set_as_current=False)
    away.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0, "interval_max": 0}
    monkeypatch.setattr(task_queue, "current_app", away)
    lifecycle.submit_soon("abc")
    assert "waits for the next periodic task" in caplog.text


def _submit(run_id: str) -> bool:
    try:
        return run_submit_now(run_id)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_workers_at_once_submit_once(run: Run, launcher: FakeLauncher) -> None:
    with ThreadPoolExecutor(6) as pool:
        submitted = list(pool.map(_submit, [run.pk] * 6))
    assert submitted.count(True) == 1
    assert len(launcher.launches) == 1
    assert Attempt.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_runs_that_want_the_same_devices_at_once_one_gets_them(run: Run, launcher: FakeLauncher) -> None:
    runs = [run.pk] + [
        Run.objects.create(project=run.project, owner=run.owner, name="r", config=run.config, iterations=1).pk
        for _ in range(5)
    ]
    launcher.devices = Capacity(2.0, 0.0, 2.0, 0.0)
    with ThreadPoolExecutor(6) as pool:
        submitted = list(pool.map(_submit, runs))
    assert submitted.count(True) <= 1, "the oldest one alone; whoever was asked before it waits its turn"
    run_submit_now(run.pk)
    run.refresh_from_db()
    assert (run.state, len(launcher.launches)) == ("starting", 1)
    assert Run.objects.filter(state="queued", reason__startswith="Waiting for").count() == 5

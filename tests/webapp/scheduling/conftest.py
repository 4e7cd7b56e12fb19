"""A launcher that runs nothing, and status events of drivers that do not exist."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from webapp.ingest.services import IngestAnswer, batch_store
from webapp.reconciliation import services as reconciliation
from webapp.runs.models import Attempt, Run
from webapp.scheduling import submission
from workers.launchers.launcher import Capacity
from workers.launchers.registry import FakeLauncher

Say = Callable[..., IngestAnswer]


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs that the worker was woken for."""
    runs: list[str] = []
    for module in ("services", "attempts"):
        monkeypatch.setattr(f"webapp.scheduling.{module}.submit_soon", runs.append)
    monkeypatch.setattr("webapp.scheduling.services.look_soon", runs.append)
    return runs


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> FakeLauncher:
    """Room for one run of the demonstration and a bit."""
    fake = FakeLauncher(devices=Capacity(4.0, 0.0, 4.0, 0.0))
    monkeypatch.setattr(submission, "make_launcher", lambda kind: fake)
    monkeypatch.setattr(reconciliation, "make_launcher", lambda kind: fake)
    settings.TROUPE_HOME = tmp_path
    return fake


@pytest.fixture
def long_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process started an hour ago."""
    start = timezone.now() - timedelta(hours=1)
    monkeypatch.setattr(reconciliation, "process_start", lambda: start)


@pytest.fixture
def say(run: Run) -> Say:
    """A status event of an attempt's driver, through ingest."""
    seqs: dict[int, int] = {}

    def speak(state: str, iteration: int = 0, attempt: int = 1, **fields: Any) -> IngestAnswer:
        seqs[attempt] = seqs.get(attempt, 0) + 1
        event = {
            "run": run.pk, "attempt": attempt, "producer": f"p{attempt}", "seq": seqs[attempt], "time": 1000.0,
            "type": "status", "state": state, "iteration": iteration,
        }  # fmt: skip
        return batch_store(run.pk, json.dumps(event | fields).encode(), "")

    return speak


def silent_for(attempt: Attempt, seconds: float) -> None:
    """Nothing was heard of it for so long."""
    moment = timezone.now() - timedelta(seconds=seconds)
    Attempt.objects.filter(pk=attempt.pk).update(heartbeat_at=moment, created_at=moment)


def another(run: Run, **fields: Any) -> Run:
    """A second run with the config of the first one."""
    return Run.objects.create(
        project=run.project, owner=run.owner, name="other", config=run.config, iterations=9, **fields
    )

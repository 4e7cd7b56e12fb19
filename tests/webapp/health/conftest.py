"""Runs that tell of themselves, and checkpoints of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.webapp.checkpoints.conftest import make, sent
from training_core.config.health import Health
from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Run, RunState

__all__ = ["make", "sent"]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker and no static files are needed."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@pytest.fixture
def told(run: Run) -> Run:
    Attempt.objects.create(run=run, number=1, submission_id=f"troupe-{run.pk}-1", state="live")
    run.state = RunState.RUNNING
    run.config["health"] = Health().model_dump(mode="json")  # bounds of the rules, not those of the preset
    run.save()
    return run


def tell(run: Run, first: int, key: str, values: list[float], producer: str = "p") -> None:
    numbered = (step if producer == "p" else step - first + 1 for step in range(first, first + len(values)))
    events = [
        {
            "run": run.pk, "attempt": 1, "producer": producer, "seq": next(numbered), "time": 1000.0 + step, "type": "metrics",
            "step": step, "values": {key: value},
        }
        for step, value in enumerate(values, first)
    ]  # fmt: skip
    batch_store(run.pk, "\n".join(map(json.dumps, events)).encode(), "")


def change(run: Run, **rules: dict[str, Any]) -> None:
    run.config["health"] |= rules
    run.save()

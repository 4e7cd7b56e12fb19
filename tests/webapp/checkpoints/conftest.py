"""Checkpoints of a run, in the database and on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from training_core.checkpoints import writing
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run

Make = Callable[..., Checkpoint]


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs that the worker was woken for."""
    runs: list[str] = []
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", runs.append)
    return runs


@pytest.fixture
def make(run: Run, settings: Any, tmp_path: Path) -> Make:
    """Write a checkpoint of `run`, or of another."""
    settings.TROUPE_HOME = tmp_path

    def checkpoint(iteration: int, of: Run | None = None, **fields: Any) -> Checkpoint:
        owner = of or run
        path = f"checkpoints/iteration-{iteration:06d}"
        with writing(tmp_path / "runs" / owner.pk / "checkpoints", iteration, {}) as folder:
            for policy in ("planner", "executor"):
                (folder / policy).mkdir(parents=True)
                (folder / policy / "model.safetensors").write_bytes(b"weights of " + policy.encode())
                (folder / policy / "config.json").write_text("{}")
                (folder / policy / "optimizer.safetensors").write_bytes(b"moments")
        base = {"attempt": 1, "cursor": 1, "size": 1000, "metrics": {}, "time": timezone.now()}
        return Checkpoint.objects.create(run=owner, iteration=iteration, path=path, **(base | fields))

    return checkpoint

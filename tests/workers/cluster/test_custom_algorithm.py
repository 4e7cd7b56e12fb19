"""Runs on Ray with an algorithm of language models by import path."""

import json
from pathlib import Path

import pytest

from tests.training_core.llm.learning.restated import HERE, custom
from tests.workers.running import curve, events, small_config
from workers.driver.attempt import FAILED, run_attempt
from workers.protocol import Attempt

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300), pytest.mark.extended]


def test_coordinator_and_learners_use_the_custom_class(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    config = small_config(little_model, algorithm=custom(f"{HERE}:Restated"), evaluation__every=0)
    assert run_attempt(Attempt(config, "custom", 1, tmp_path, tmp_path), local=False) == 0
    assert ("policy/planner/loss", 2) in curve(tmp_path)
    stored = tmp_path / "checkpoints" / "iteration-000002" / "baselines.json"
    assert json.loads(stored.read_text()) == {"batches": 4.0}


def test_a_missing_class_is_reported_at_its_field(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    config = small_config(little_model, algorithm={"type": "custom", "path": f"{HERE}:Nobody"})
    assert run_attempt(Attempt(config, "missing", 1, tmp_path, tmp_path), local=False) == FAILED
    status = events(tmp_path, "status")[-1]
    assert status["message"].startswith("algorithm.path: ") and "has no 'Nobody'" in status["message"]
    assert not status.get("retry")

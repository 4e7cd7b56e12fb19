"""Runs of language models with an algorithm by import path."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training_core.llm.learning.restated import HERE, custom
from tests.workers.running import conversation, curve, events, small_config
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt


def attempt(folder: Path, model: Path, **overrides: Any) -> Attempt:
    return Attempt(small_config(model, **overrides), "r", 1, folder, folder.parent)


APART = {f"policies__{name}__devices__placement": "apart" for name in ("planner", "executor")}


@pytest.mark.extended
@pytest.mark.parametrize("ahead", [False, True])
def test_a_run_gives_the_numbers_of_the_restated_algorithm(
    ahead: bool, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.driver.loop.plays_ahead", lambda config: ahead)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert run_attempt(attempt(ours, little_model, algorithm={"type": "grpo"}, **APART), local=True) == 0
    algorithm = custom(f"{HERE}:Restated", "grpo")
    assert run_attempt(attempt(theirs, little_model, algorithm=algorithm, **APART), local=True) == 0
    assert curve(theirs) == curve(ours) and len(curve(ours)) > 100
    assert conversation(theirs) == conversation(ours)
    stored = theirs / "checkpoints" / "iteration-000002" / "baselines.json"
    assert json.loads(stored.read_text()) == {"batches": 4.0}


def test_a_run_with_a_missing_class_plays_no_episode(little_model: Path, tmp_path: Path) -> None:
    told = attempt(tmp_path / "run", little_model, algorithm={"type": "custom", "path": f"{HERE}:Nobody"})
    assert run_attempt(told, local=True) != 0
    assert curve(tmp_path / "run") == {}
    assert "has no 'Nobody'" in events(tmp_path / "run", "status")[-1]["message"]

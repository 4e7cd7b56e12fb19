"""Algorithms with state, which checkpoints store so that a resumed run gives the same numbers; an algorithm by import path."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.training_core.llm.learning.restated import HERE, custom
from tests.workers.running import conversation, curve, small_config
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


@pytest.mark.extended
@pytest.mark.parametrize(("kind", "kept"), [("ppo", "planner/critic.safetensors"), ("rae", "baselines.json")])
def test_a_resumed_run_gives_the_same_numbers(
    kind: str, kept: str, little_model: Path, tmp_path: Path
) -> None:
    config = small_config(little_model, run__iterations=4, checkpoint__every=2, algorithm={"type": kind})
    assert run_attempt(Attempt(config, "r", 1, tmp_path / "run", tmp_path), local=True) == 0
    middle = tmp_path / "run" / "checkpoints" / "iteration-000002"
    assert (middle / kept).is_file()
    assert run_attempt(Attempt(config, "r", 2, tmp_path / "run", tmp_path, middle), local=True) == 0
    straight, resumed = curve(tmp_path / "run"), curve(tmp_path / "run", 2)
    later = {key: value for key, value in straight.items() if key[1] > 2}
    assert len(later) > 50
    assert {key: resumed[key] for key in later} == later


@pytest.mark.extended
def test_a_run_starts_from_its_warm_started_model(little_model: Path, tmp_path: Path) -> None:
    """The planner alone is taught: its first checkpoint is near that model, and the run is resumed from it as any other."""
    taught = {"steps": 3, "batch": 4, "learning_rate": 1e-3}
    config = small_config(
        little_model,
        run__iterations=2,
        policies__planner__warm_start=taught,
        policies__planner__learner__learning_rate=1e-9,
        policies__planner__learner__final_learning_rate=0.0,
    )
    folder = tmp_path / "run"
    assert run_attempt(Attempt(config, "r", 1, folder, tmp_path), local=True) == 0
    (warm,) = [path for path in (tmp_path / "models").iterdir() if path.is_dir()]
    end = folder / "checkpoints" / "iteration-000002" / "planner" / "model.safetensors"
    wanted, found, before = (
        load_file(path) for path in (warm / "model.safetensors", end, little_model / "model.safetensors")
    )
    assert all(torch.allclose(wanted[name], found[name], atol=1e-6) for name in wanted)
    assert any(not torch.allclose(before[name], found[name], atol=1e-4) for name in before)
    middle = folder / "checkpoints" / "iteration-000001"
    assert run_attempt(Attempt(config, "r", 2, folder, tmp_path, middle), local=True) == 0
    straight, resumed = curve(folder), curve(folder, 2)
    assert {key: resumed[key] for key in straight if key[1] > 1} == {
        key: value for key, value in straight.items() if key[1] > 1
    }

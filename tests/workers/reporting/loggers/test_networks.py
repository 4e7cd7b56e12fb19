"""Weights and gradients of small networks as histograms."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.reporting.loggers.test_loggers import lines
from tests.workers.running import small_networks
from training_core.marl.trainer import MarlTrainer
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt


def test_histograms_of_weights_and_gradients_are_written(tmp_path: Path) -> None:
    asked = {"reporting__jsonl": True, "reporting__histograms": True, "run__iterations": 2}
    config = small_networks("spread_mappo", **asked)
    assert run_attempt(Attempt(config, "r", 1, tmp_path / "run", tmp_path), local=True) == 0
    told = {
        (str(line["histogram"]), line["step"]): torch.tensor(line["numbers"])
        for line in lines(tmp_path / "run")
        if str(line.get("histogram", "")).startswith("policy/agents/")
    }
    networks = MarlTrainer(config).learners["agents"]
    names = {
        f"policy/agents/{network}/{kind}/{layer}"
        for network, module in (("actor", networks.actor), ("critic", networks.critic))
        for kind in ("weights", "gradients")
        for layer, _ in module.named_parameters()
    }
    assert set(told) == {(name, step) for name in names for step in (1, 2)}
    folder = tmp_path / "run" / "checkpoints" / "iteration-000002" / "agents"
    saved = load_file(next(path for path in folder.glob("*.safetensors") if "actor" in path.name))
    compared = 0
    for key, tensor in saved.items():
        name = next((layer for layer, _ in networks.actor.named_parameters() if key.endswith(layer)), "")
        numbers = told.get((f"policy/agents/actor/weights/{name}", 2))
        if numbers is None:
            continue
        compared += 1
        ordered = tensor.flatten().float().sort().values
        assert len(numbers) == min(len(ordered), 500)
        assert numbers[0] == ordered[0] and numbers[-1] == ordered[-1]
        assert numbers.median() == pytest.approx(float(ordered.median()), abs=0.01)
    assert compared == len(list(networks.actor.named_parameters()))
    small = [told[name, 2] for name in names if "/actor/gradients/" in name and name.endswith("bias")]
    norm = float(torch.cat(small).norm())
    assert 0 < norm <= config.policies["agents"].learner.max_grad_norm + 1e-6, "as a step applied them"


def test_without_histograms_none_are_made(tmp_path: Path) -> None:
    config = small_networks("spread_mappo", reporting__jsonl=True, run__iterations=1)
    assert run_attempt(Attempt(config, "r", 1, tmp_path / "run", tmp_path), local=True) == 0
    assert not [line for line in lines(tmp_path / "run") if "histogram" in line]

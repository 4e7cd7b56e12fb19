"""Rollouts and updates whose tensors lie on another device than the environments' arrays, as with resources.gpus."""

from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training_core.marl.hints import Hints, config, policy
from tests.training_core.marl.other_device import META, MadeUp
from tests.training_core.marl.test_departing_agents import PATH
from training_core.marl import trainer as trainers
from training_core.marl.environments.registry import make_environments
from training_core.marl.learning import flat_adam as flat
from training_core.marl.learning import learner
from training_core.marl.learning.flat_adam import FlatAdam
from training_core.marl.trainer import MarlTrainer

NETWORKS = ["mlp", "gru", "lstm", "transformer"]
KINDS: dict[str, dict[str, Any]] = {
    "own state": {"state": True, "masked": True},
    "continuous": {"continuous": True},
    "several sets": {"several": True},
    "ended episodes": {"terminates": True},
}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainers take the other device; the fused Adam and autocast do not know it."""
    monkeypatch.setattr(learner.torch, "autocast", lambda *args, **settings: nullcontext())
    monkeypatch.setattr(trainers, "device_of", lambda config: META)
    adam = torch.optim.AdamW
    monkeypatch.setattr(flat.torch.optim, "AdamW", lambda *args, fused, **settings: adam(*args, **settings))


def made(
    kind: str, algorithm: str, shared: bool, environment: dict[str, Any] | None = None, **hints: Any
) -> MarlTrainer:
    network = {"type": kind, "hidden_dim": 8, "share_parameters": shared}
    if kind != "mlp":
        network |= {"recurrent_hidden_dim": 8, "chunk_length": 5}
    settings = config(
        policies={"one": policy(**network)},
        algorithm={"type": algorithm, "target_kl": 0.1},
        rollout={"environments": 2, "steps": 7},
        **({"environment": environment} if environment else {}),
    )
    make = make_environments if environment else lambda section, count: Hints(count, **hints)
    return MarlTrainer(settings, make)


WAYS = [
    *[(kind, algorithm, True, "own state") for kind, algorithm in product(NETWORKS, ["mappo", "ippo"])],
    *[(kind, "mappo", False, "own state") for kind in ("mlp", "gru")],
    *[(kind, "ippo", True, hints) for kind in ("mlp", "lstm") for hints in KINDS if hints != "own state"],
]


@pytest.mark.parametrize(("kind", "algorithm", "shared", "hints"), WAYS)
def test_a_whole_iteration_stays_on_the_device(
    elsewhere: None, kind: str, algorithm: str, shared: bool, hints: str
) -> None:
    with MadeUp():
        made_there = made(kind, algorithm, shared, **KINDS[hints])
        made_there.collect(1)
        made_there.update(1)
        made_there.evaluate(True, 2)
    assert made_there.learners["one"].actor_adam.weights.device == META


@pytest.mark.parametrize("algorithm", ["mappo", pytest.param("ippo", marks=pytest.mark.extended)])
@pytest.mark.parametrize("reward", ["agent", "team_sum"])
@pytest.mark.parametrize("kind", ["mlp", "gru"])
def test_agents_that_leave_are_told_on_the_device(
    elsewhere: None, kind: str, algorithm: str, reward: str
) -> None:
    environment = {"type": "pettingzoo", "path": PATH, "strict_agents": False, "reward": reward}
    environment["args"] = {"continuous": True, "cut": ("a_0",)}
    with MadeUp():
        made_there = made(kind, algorithm, True, environment)
        made_there.collect(1)
        made_there.update(1)


def test_resumed_optimisers_lie_where_their_weights_do() -> None:
    here = torch.nn.Linear(3, 2)
    adam = FlatAdam(here, 0.0, 0.5)
    adam.set_learning_rate(0.1)
    here(torch.ones(4, 3)).sum().backward()
    adam.step()
    with MadeUp():
        there = FlatAdamElsewhere(torch.nn.Linear(3, 2, device="meta"))
        there.load_state_dict(adam.state_dict())
        recorded_steps = there.state_dict()
    assert {recorded_steps[name].device for name in ("exp_avg", "exp_avg_sq")} == {META}


class FlatAdamElsewhere(FlatAdam):
    """As FlatAdam, without gradients."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.gradients = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
        self._state = {}


def test_a_resumed_rollout_s_memories_lie_on_the_device(elsewhere: None, tmp_path: Path) -> None:
    environment = {"type": "mpe_simple_spread", "max_cycles": 30}
    with MadeUp():
        first = made("gru", "mappo", True, environment)
        first.collect(1)
        first.update(1)
        for name, memory in first._runner.memories.items():
            assert all(part.device == META for part in memory), name

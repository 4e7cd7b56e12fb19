"""Networks by import path: policies.*.network.type = "custom"."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from examples.custom.decaying_trace import DecayingTrace
from tests.workers.running import small_networks
from training_core.config.files import load_config
from training_core.config.permitted import Permitted, check_permitted
from training_core.errors import ConfigError
from training_core.marl.networks.base import Memory
from training_core.marl.trainer import MarlTrainer

EXAMPLE = "examples.custom.decaying_trace:DecayingTrace"
MLP = "training_core.marl.networks.layers:MlpBackbone"


class Half(DecayingTrace):
    """Features of half the promised width."""

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        return super().sequence(x, memory, begins)[..., ::2]


class Bare(DecayingTrace):
    """A memory that is a tensor."""

    def start(self, rows: int) -> Any:
        return super().start(rows)[0]

    def step(self, x: Tensor, memory: Any) -> tuple[Tensor, Any]:
        trace, after = super().step(x, (memory,) if isinstance(memory, Tensor) else memory)
        return trace, after[0]


class Broken(DecayingTrace):
    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        raise RuntimeError("no step")


def recall(**network: Any) -> MarlTrainer:
    """Two agents that remember a cue, with a custom network."""
    overrides = {
        "policies.agents.network": {"type": "custom", "path": EXAMPLE, "chunk_length": 18} | network,
        "rollout.environments": 32,
    }
    return MarlTrainer(load_config("recall_mappo_gru", overrides))


def spread(**network: Any) -> MarlTrainer:
    changes = {f"policies__agents__network__{key}": value for key, value in network.items()}
    return MarlTrainer(small_networks("spread_toy", policies__agents__learner__epochs=2, **changes))


def trained(trainer: MarlTrainer, first: int, last: int) -> dict[str, float]:
    """The metrics of the last of these iterations."""
    for iteration in range(first, last + 1):
        trainer.collect(iteration)
        metrics = trainer.update(iteration)["agents"]
    return metrics


def weights(trainer: MarlTrainer) -> Tensor:
    learner = trainer.learners["agents"]
    return torch.cat([learner.actor_adam.weights.detach(), learner.critic_adam.weights.detach()])


@pytest.mark.parametrize("shared", [True, False])
def test_a_built_in_network_by_import_path_trains_identically(shared: bool) -> None:
    custom = spread(type="custom", path=MLP, share_parameters=shared)
    built_in = spread(share_parameters=shared)
    assert trained(custom, 1, 2) == trained(built_in, 1, 2)
    assert torch.equal(weights(custom), weights(built_in))


@pytest.mark.extended
def test_the_example_remembers_a_cue() -> None:
    network = {"type": "custom", "path": EXAMPLE, "chunk_length": 18}
    trainer = MarlTrainer(load_config("recall_mappo_gru", {"policies.agents.network": network}))
    metrics = trained(trainer, 1, 25)
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=0.05)
    episodes = trainer.evaluate(greedy=True, episodes=32).episodes
    mean = sum(sum(played.rewards.values()) for played in episodes) / len(episodes)
    assert mean > 1.8, "0.5 without memory, 2 at most"


@pytest.mark.parametrize("shared", [True, False])
def test_a_memory_is_continued_from_a_checkpoint(shared: bool, tmp_path: Path) -> None:
    def trainer() -> MarlTrainer:
        network = {"type": "custom", "path": EXAMPLE, "chunk_length": 4, "share_parameters": shared}
        overrides = {"policies.agents.network": network, "rollout.environments": 4, "rollout.steps": 6}
        return MarlTrainer(load_config("recall_mappo_gru", overrides))

    whole = trainer()
    trained(whole, 1, 1)
    whole.save(tmp_path)
    resumed = trainer()
    resumed.load(tmp_path)
    assert trained(whole, 2, 3) == trained(resumed, 2, 3)
    assert torch.equal(weights(whole), weights(resumed))


def test_args_reach_the_class() -> None:
    short, long = recall(args={"decay": 0.1}), recall(args={"decay": 0.9})
    assert trained(short, 1, 1) != trained(long, 1, 1)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"path": "examples.custom.relay:Relay"}, "is not a subclass of Backbone"),
        ({"path": "examples.custom.nowhere:Net"}, "there is no module 'examples.custom.nowhere'"),
        ({"args": {"halflife": 3}}, "cannot be constructed with .* network.args: .*'halflife'"),
        ({"path": "training_core.marl.networks.base:Backbone"}, "abstract"),
        ({"path": f"{__name__}:Half"}, r"sequence returns features of shape \(2, 3, 64\) for 3 rows"),
        ({"path": f"{__name__}:Bare"}, "the memory is not a tuple of tensors"),
        ({"path": f"{__name__}:Broken"}, "RuntimeError: no step. Fix it"),
    ],
)
def test_a_wrong_class_is_refused_at_its_field(network: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        recall(**network)
    assert list(refusal.value.fields) == ["policies.agents.network.path"]


def test_a_chunk_longer_than_the_rollout_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"policies\.agents\.network\.chunk_length: longer than rollout"):
        recall(chunk_length=37)


def test_a_server_runs_only_networks_that_its_owner_has_allowed() -> None:
    network = {"type": "custom", "path": "lab.networks:Trace"}
    config = load_config("recall_mappo_gru", {"policies.agents.network": network})
    check_permitted(config, Permitted(["lab"]))
    with pytest.raises(ConfigError, match=r"policies\.agents\.network\.path: code of the package 'lab'"):
        check_permitted(config, Permitted())

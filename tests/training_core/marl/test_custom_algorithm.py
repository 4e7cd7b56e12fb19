"""Algorithms by import path: algorithm.type = "custom_ppo"."""

from typing import Any

import pytest
import torch

from tests.workers.running import small_networks
from training_core.errors import ConfigError
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.trainer import MarlTrainer

OURS = "training_core.marl.learning.learner:PolicyLearner"
EXAMPLE = "examples.custom.penalised_ppo:PenalisedPpo"
HERE = __name__


class Silent(PolicyLearner):
    """Learns nothing: all its losses are 0."""

    def losses(self, part: Any) -> Any:
        loss, row = super().losses(part)
        return loss * 0.0, row


def weights(algorithm: dict[str, Any], updates: int = 2) -> torch.Tensor:
    """All weights after so many iterations."""
    changes = {f"algorithm__{key}": value for key, value in algorithm.items()}
    trainer = MarlTrainer(small_networks("spread_mappo", policies__agents__learner__epochs=2, **changes))
    for iteration in range(1, updates + 1):
        trainer.collect(iteration)
        trainer.update(iteration)
    learner = trainer.learners["agents"]
    return torch.cat([learner.actor_adam.weights.detach(), learner.critic_adam.weights.detach()])


class OldHook(PolicyLearner):
    """Defines a hook by its previous name."""

    def make_sight(self, slots: Any, spec: Any) -> Any:
        raise AssertionError("never called")


def test_a_hook_with_its_previous_name_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"make_sight, which is now make_critic_inputs\(slots, spec\); rename it"
    ):
        weights({"type": "custom_ppo", "path": f"{HERE}:OldHook"}, updates=0)


@pytest.mark.parametrize(("kind", "view"), [("mappo", "all"), ("ippo", "own")])
def test_our_own_class_by_import_path_is_the_algorithm_itself(kind: str, view: str) -> None:
    preset = small_networks("spread_mappo").algorithm.model_dump(exclude={"type", "critic_sees"})
    own = {"type": "custom_ppo", "path": OURS, "critic_sees": view}
    assert torch.equal(weights(own | preset), weights({"type": kind} | preset))


@pytest.mark.extended
def test_a_custom_class_determines_the_loss_and_receives_its_arguments() -> None:
    own = {"type": "custom_ppo", "path": EXAMPLE}
    soft, hard = weights(own | {"args": {"beta": 0.5}}), weights(own | {"args": {"beta": 500.0}})
    clipped = weights({"type": "mappo"})
    assert soft.isfinite().all() and hard.isfinite().all()
    assert not torch.equal(soft, hard) and not torch.equal(soft, clipped)
    silent = {"type": "custom_ppo", "path": f"{HERE}:Silent"}
    start = weights(silent, updates=0)
    normalised = weights(silent | {"normalise_values": False}, updates=1)
    assert torch.equal(start, normalised) and not torch.equal(start, weights(own, updates=1))


@pytest.mark.extended
def test_the_example_learns() -> None:
    config = small_networks(
        "spread_toy",
        run__iterations=30,
        rollout__environments=16,
        algorithm__type="custom_ppo",
        algorithm__path=EXAMPLE,
    )
    trainer = MarlTrainer(config)
    before = trainer.evaluate(greedy=True, episodes=16)
    for iteration in range(1, 31):
        trainer.collect(iteration)
        trainer.update(iteration)
    after = trainer.evaluate(greedy=True, episodes=16)

    def mean(found: Any) -> float:
        return sum(sum(played.rewards.values()) for played in found.episodes) / len(found.episodes)

    assert mean(after) > mean(before) + 30.0, "of 125"


def test_what_is_no_learner_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a subclass of PolicyLearner"):
        weights({"type": "custom_ppo", "path": "examples.custom.relay:Relay"})

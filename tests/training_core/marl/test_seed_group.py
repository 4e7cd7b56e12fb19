"""Several seeds in one process have the numbers of their own trainers, to fp32 rounding."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from training_core.config.files import apply_overrides, parse_config, read_preset
from training_core.config.marl import MarlConfig, reason_for_separate_runs
from training_core.errors import ConfigError
from training_core.marl.learning.learner import AnalyticGradients
from training_core.marl.records import Collection
from training_core.marl.seed_group import SeedGroup
from training_core.marl.trainer import MarlTrainer

SEEDS = (3, 0, 11)
SMALL = {"rollout.environments": 6, "run.iterations": 9}
TOLERANCE = {"rel": 2e-3, "abs": 1e-4}
"""Of metrics after a few updates: rounding of fp32, which Adam's first steps amplify where gradients are near 0."""


def made(preset: str, seed: int, **more: Any) -> MarlConfig:
    policies = read_preset(preset)["policies"]
    settings = (
        {f"policies.{name}.learner.minibatch_size": 60 for name in policies} | SMALL | {"run.seed": seed}
    )
    config = parse_config(apply_overrides(read_preset(preset), settings | more))
    assert isinstance(config, MarlConfig)
    return config


def rewards(collection: Collection) -> list[float]:
    return [reward for episode in collection.episodes for reward in episode.rewards.values()]


def check_equal(metrics: dict[str, dict[str, float]], expected: dict[str, dict[str, float]]) -> None:
    assert metrics.keys() == expected.keys()
    for policy, own in expected.items():
        for name, value in own.items():
            tolerance = TOLERANCE | ({"abs": 4e-3} if name == "clip_fraction" else {})  # a count of samples
            assert metrics[policy][name] == pytest.approx(value, **tolerance), (policy, name)


@pytest.mark.parametrize(
    ("preset", "more"),
    [
        ("spread_mappo", {}),
        pytest.param(
            "spread_ippo",
            {"algorithm.clip_value": True, "algorithm.value_clip": 0.02},
            marks=pytest.mark.extended,
        ),
        pytest.param(
            "spread_mappo",
            {"policies.agents.network.activation": "relu", "policies.agents.network.identity_dim": 4},
            marks=pytest.mark.extended,
        ),
        pytest.param("tag_mappo", {}, marks=pytest.mark.extended),
        ("reference_mappo", {"algorithm.target_kl": 1e-4, "environment.reward": "agent"}),
    ],
)
def test_every_seed_has_the_curve_of_its_own_run(preset: str, more: dict[str, Any]) -> None:
    group = SeedGroup([made(preset, seed, **more) for seed in SEEDS])
    alone = [MarlTrainer(made(preset, seed, **more)) for seed in SEEDS]
    for iteration in (1, 2, 3, 4):
        together = group.collect(dict.fromkeys(range(len(SEEDS)), iteration))
        for index, trainer in enumerate(alone):
            assert rewards(together[index]) == pytest.approx(rewards(trainer.collect(iteration)))
            check_equal(group.trainers[index].update(iteration), trainer.update(iteration))
    for index, trainer in enumerate(alone):
        own = group.trainers[index].evaluate(greedy=True, episodes=6)
        assert rewards(own) == pytest.approx(rewards(trainer.evaluate(greedy=True, episodes=6)), rel=1e-4)


def test_seeds_continue_without_those_that_ended(tmp_path: Path) -> None:
    """A seed that stops has the checkpoint of its own run; the others continue, also at other iterations."""
    group = SeedGroup([made("spread_mappo", seed) for seed in SEEDS])
    alone = [MarlTrainer(made("spread_mappo", seed)) for seed in SEEDS]
    for members, iterations in (((0, 1, 2), (1, 1, 1)), ((2, 0), (2, 2)), ((2, 1), (3, 2))):
        played = group.collect(dict(zip(members, iterations, strict=True)))
        for index, iteration in zip(members, iterations, strict=True):
            assert rewards(played[index]) == pytest.approx(rewards(alone[index].collect(iteration)))
            check_equal(group.trainers[index].update(iteration), alone[index].update(iteration))
    group.trainers[0].save(tmp_path)
    resumed = MarlTrainer(made("spread_mappo", SEEDS[0]))
    resumed.load(tmp_path)
    resumed.collect(3)
    alone[0].collect(3)
    check_equal(resumed.update(3), alone[0].update(3))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_gradients_are_those_of_autograd(activation: str, fused: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: fused)
    more = {
        "policies.agents.network.activation": activation,
        "policies.agents.network.identity_dim": 3,
        "algorithm.clip_value": fused,
        "algorithm.value_clip": 5.0,
    }
    trainer = MarlTrainer(made("spread_ippo", 1, **more))
    (learner,) = trainer.learners.values()
    trainer.collect(1)
    assert trainer._rollout is not None
    chunks, _ = learner._prepare(trainer._rollout)
    rows = torch.randperm(len(chunks))[:40]
    with torch.no_grad():  # so that ratios are clipped, and that values are of another size than the old ones
        chunks.log_probs += torch.randn_like(chunks.log_probs) * 0.3
        chunks.old_values.normal_(std=0.3)
        chunks.returns.normal_(std=0.3)
    (part,) = chunks.minibatches(rows, 40)
    loss, expected = learner.losses(part)
    loss.backward()  # type: ignore[no-untyped-call]
    networks: Sequence[Any] = (learner.actor, learner.critic)
    gradients = [weight.grad.clone() for network in networks for weight in network.parameters()]
    row = AnalyticGradients(learner, activation)(chunks)(rows)
    torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-6)
    for own, recorded in zip(
        (w.grad for network in networks for w in network.parameters()), gradients, strict=True
    ):
        torch.testing.assert_close(own, recorded, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("preset", "more", "reason"),
    [
        ("recall_mappo_gru", {}, "networks other than mlp"),
        ("spread_toy", {}, "environments other than the native multi-particle ones"),
        ("spread_mappo", {"environment.backend": "mpe2"}, "environments other than"),
        ("spread_mappo", {"environment.supersuit.frame_stack": 2}, "environments other than"),
        ("spread_mappo", {"rollout.steps": 20}, "episodes that continue over rollouts"),
        ("spread_mappo", {"policies.agents.learner.precision": "bf16"}, "precision other than fp32"),
        ("spread_mappo", {"environment.continuous_actions": True}, "continuous actions"),
    ],
)
def test_other_configs_are_refused_with_the_reason(preset: str, more: dict[str, Any], reason: str) -> None:
    config = made(preset, 0, **more)
    assert reason in reason_for_separate_runs(config)
    with pytest.raises(ConfigError, match=reason):
        SeedGroup([config, config])

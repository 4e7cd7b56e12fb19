"""Rollouts that are shorter than an episode: it goes on in the next iteration, also after a resume."""

import logging
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from pettingzoo import ParallelEnv

from tests.training_core.marl.hints import config, policy
from training_core.config.files import load_config
from training_core.config.marl import MarlConfig
from training_core.errors import ConfigError
from training_core.marl.environments.registry import make_environments
from training_core.marl.environments.split import LocalShare, SplitEnvironments
from training_core.marl.trainer import MarlTrainer

RELAY = "examples.custom.relay:Relay"
LEAVERS = "tests.training_core.marl.environments.leavers:parallel_env"
HERE = "tests.training_core.marl.test_continued_episodes"
FORAGING = {"grid_size": 3, "num_food": 2, "max_cycles": 9}
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "spread": {"type": "mpe_simple_spread"},
    "stacked spread": {"type": "mpe_simple_spread", "supersuit": {"frame_stack": 3}},
    "reference": {"type": "mpe_simple_reference"},
    "toy": {"type": "toy_simple_spread"},
    "hetero": {"type": "simple_hetero"},
    "foraging": {"type": "simple_foraging", **FORAGING},
    "recall": {"type": "recall_cue"},
    "foraging by PettingZoo": {"type": "simple_foraging_pz", **FORAGING},
    "mpe2": {"type": "mpe_simple_spread", "backend": "mpe2"},
    "a class by the contract": {"type": "custom_marl", "path": RELAY, "args": {"laps": 3}},
    "agents that leave": {"type": "pettingzoo", "path": LEAVERS, "strict_agents": False},
    "gymnasium": {"type": "gymnasium", "id": "CartPole-v1"},
    "gymnasium, continuous": {"type": "gymnasium", "id": "Pendulum-v1"},
}
COMMON = {"spread", "toy", "a class by the contract", "agents that leave"}
"""Kinds of environments that differ in how they end and begin; the others are extended tests."""
GRU = {"type": "gru", "recurrent_hidden_dim": 8, "chunk_length": 3}


def settings(
    environment: dict[str, Any], network: dict[str, Any], steps: int = 5, **rollout: Any
) -> MarlConfig:
    return config(
        environment=environment,
        policies={"one": policy(hidden_dim=8, **network)},
        algorithm={"type": "ippo"},
        rollout={"environments": 3, "steps": steps} | rollout,
    )


def learn(trainer: MarlTrainer, first: int, last: int) -> list[Any]:
    found = []
    for iteration in range(first, last + 1):
        episodes = trainer.collect(iteration).episodes
        found.append((episodes, trainer.update(iteration)))
    return found


@pytest.mark.parametrize(
    "name",
    [name if name in COMMON else pytest.param(name, marks=pytest.mark.extended) for name in ENVIRONMENTS],
)
@pytest.mark.parametrize("network", [{}, GRU], ids=["mlp", "gru"])
def test_a_resumed_run_goes_on_in_mid_episode_bit_for_bit(
    name: str, network: dict[str, Any], tmp_path: Path
) -> None:
    wanted = settings(ENVIRONMENTS[name], network)
    whole = MarlTrainer(wanted)
    assert whole.continues_episodes
    told = learn(whole, 1, 4)
    half = MarlTrainer(wanted)
    learn(half, 1, 2)
    half.save(tmp_path)
    resumed = MarlTrainer(wanted)
    resumed.load(tmp_path)
    assert learn(resumed, 3, 4) == told[2:]
    for one, other in zip(whole.learners.values(), resumed.learners.values(), strict=True):
        assert torch.equal(one.actor_adam.weights, other.actor_adam.weights)


def test_every_step_of_a_long_episode_is_learnt_from() -> None:
    """A toy whose first observation is the share of the episode that is over."""
    trainer = MarlTrainer(settings({"type": "toy_simple_spread", "max_cycles": 20}, {}))
    seen = []
    for iteration in range(1, 5):
        trainer.collect(iteration)
        assert trainer._rollout is not None
        seen += trainer._rollout.trajectories["one"].observations[:-1, 0, 0, 0].tolist()
    assert seen == pytest.approx([step / 20 for step in range(20)])


def test_the_preset_learns_from_longer_episodes_by_itself() -> None:
    """MARLKit's --max-cycles 100 on spread_mappo, whose rollouts have 25 steps."""
    wanted = load_config(
        "spread_mappo", {"environment.max_cycles": 100, "rollout.environments": 4, "run.iterations": 4}
    )
    assert isinstance(wanted, MarlConfig)
    found = learn(MarlTrainer(wanted), 1, 4)
    assert [len(episodes) for episodes, _ in found] == [0, 0, 0, 4]
    assert all(episode.length == 100 for episode in found[-1][0])
    assert found[1][1] != found[0][1]


def test_episodes_that_fit_into_a_rollout_begin_anew_and_are_not_kept(tmp_path: Path) -> None:
    trainer = MarlTrainer(settings({"type": "toy_simple_spread", "max_cycles": 5}, {}))
    learn(trainer, 1, 1)
    trainer.save(tmp_path)
    assert not trainer.continues_episodes and not (tmp_path / "episodes.safetensors").exists()


def test_shares_of_environments_go_on_together() -> None:
    section = settings(ENVIRONMENTS["foraging"], {}).environment

    def made() -> SplitEnvironments:
        return SplitEnvironments([LocalShare(make_environments(section, count)) for count in (2, 1)])

    one, other = made(), made()
    one.reset(7)
    actions = [{"agents": np.full((3, 3), move)} for move in (1, 4, 2, 3)]
    for chosen in actions[:2]:
        view = one.step(chosen).view
    kept = one.episode_state()
    assert kept is not None
    found = other.restore(kept)
    assert found is not None
    assert np.array_equal(found.observations["agents"], view.observations["agents"])
    for chosen in actions[2:]:
        left, right = one.step(chosen), other.step(chosen)
        assert np.array_equal(left.view.observations["agents"], right.view.observations["agents"])
        assert np.array_equal(left.rewards["agents"], right.rewards["agents"])


class Moody(ParallelEnv):  # type: ignore[misc]
    """What it shows does not follow from its seed."""

    metadata = {"name": "moody"}
    possible_agents = ["one"]
    shown = 0.0

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents, Moody.shown = ["one"], Moody.shown + 1.0
        return {"one": np.array([Moody.shown], np.float32)}, {"one": {}}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        return (
            {"one": np.array([Moody.shown], np.float32)},
            {"one": 0.0},
            {"one": False},
            {"one": False},
            {"one": {}},
        )

    def close(self) -> None:
        """Nothing is held."""


def test_what_does_not_play_the_same_again_begins_anew_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = settings({"type": "pettingzoo", "path": f"{HERE}:Moody"}, {})
    trainer = MarlTrainer(wanted)
    learn(trainer, 1, 1)
    trainer.save(tmp_path)
    resumed = MarlTrainer(wanted)
    resumed.load(tmp_path)
    with caplog.at_level(logging.WARNING):
        learn(resumed, 2, 2)
    assert "do not reproduce their episodes from seeds and actions" in caplog.text


def test_a_fork_with_another_environment_begins_new_episodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = MarlTrainer(settings({"type": "mpe_simple_spread", "max_cycles": 30}, {}))
    learn(trainer, 1, 1)
    trainer.save(tmp_path)
    fork = MarlTrainer(settings({"type": "mpe_simple_spread", "max_cycles": 40}, {}))
    with caplog.at_level(logging.WARNING):
        fork.load(tmp_path)
    assert "the environments have changed since the checkpoint" in caplog.text
    fork.collect(2)
    assert fork._rollout is not None and fork._rollout.begins[0].all()


def test_new_episodes_in_every_iteration_are_refused_where_gymnasium_s_are_longer() -> None:
    longest = gymnasium.spec("CartPole-v1").max_episode_steps
    assert longest == 500
    with pytest.raises(ConfigError, match="nothing after step 5 of an episode's 500 is used for training"):
        MarlTrainer(settings({"type": "gymnasium", "id": "CartPole-v1"}, {}, fresh="always"))

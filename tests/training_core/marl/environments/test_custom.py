"""The example of docs/train/marl.md, and other classes by the same contract."""

import re
from typing import Any

import numpy as np
import pytest

from examples.custom.relay import Relay
from tests.architecture.source import ROOT
from training_core.boards import Grid
from training_core.config.files import parse_config, read_toml
from training_core.config.marl import MarlConfig
from training_core.errors import ConfigError
from training_core.marl.environments.base import Choices, Success
from training_core.marl.environments.config import CustomMarl
from training_core.marl.environments.registry import make_environments
from training_core.marl.trainer import MarlTrainer

HERE = "tests.training_core.marl.environments.test_custom"


def relay(count: int, **args: Any) -> Any:
    return make_environments(
        CustomMarl(type="custom_marl", path="examples.custom.relay:Relay", args=args), count
    )


def test_the_example_s_reward_state_and_masks_reach_every_agent() -> None:
    environments = relay(3, num_agents=4)
    role = environments.spec.roles["agents"]
    assert (len(role.agents), role.observation_dim, role.actions, environments.spec.state_dim) == (
        4,
        3,
        Choices(2),
        5,
    )
    view = environments.reset(0)
    assert view.observations["agents"].shape == (3, 4, 3) and view.state.shape == (3, 5)
    assert view.observations["agents"][:, :, 0].sum(axis=1).tolist() == [1, 1, 1]  # one agent has the baton
    passing = {"agents": np.ones((3, 4), dtype=np.int64)}
    moved = environments.step(passing)
    assert moved.rewards["agents"].sum(axis=1) == pytest.approx([1 - 0.3] * 3)
    assert moved.rewards["agents"][0].tolist() == pytest.approx([0.7 / 4] * 4)
    Grid.model_validate(environments.board(1))


@pytest.mark.extended
def test_the_page_s_run_learns_to_hand_the_baton_round() -> None:
    page = (ROOT / "docs/train/marl-environments.md").read_text()
    (settings,) = [
        block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "relay:Relay" in block
    ]
    config = parse_config(read_toml(settings))
    assert isinstance(config, MarlConfig)
    trainer = MarlTrainer(config)
    for iteration in range(1, 9):
        trainer.collect(iteration)
        trainer.update(iteration)
    played = trainer.evaluate(greedy=True, episodes=8).episodes
    assert sum(one.rewards["agents"] for one in played) / 8 > 7  # of 8, one for each hand-over of two laps
    assert not any(one.truncated for one in played)
    trainer.close()


def test_an_end_is_an_end_and_a_cut_is_a_cut() -> None:
    environments = relay(2, num_agents=2, laps=1, most_steps=9)
    environments.reset(0)
    passing, holding = np.ones((1, 2), dtype=np.int64), np.zeros((1, 2), dtype=np.int64)
    steps = [environments.step({"agents": np.concatenate([passing, holding])}) for _ in range(9)]
    assert [bool(step.terminated[0]) for step in steps[:4]] == [False, True, False, True]
    assert not any(step.truncated[0] for step in steps) and not any(step.terminated[1] for step in steps)
    assert [bool(step.truncated[1]) for step in steps] == [False] * 8 + [True]
    assert steps[1].final is not None and steps[1].final.state is not None and steps[1].final.state[0, 0] == 2


def test_a_naive_loop_earns_the_same() -> None:
    environments, random = relay(1), np.random.default_rng(0)
    environments.reset(4)
    actions = random.integers(0, 2, (40, 3))
    found = [float(environments.step({"agents": row[None]}).rewards["agents"].sum()) for row in actions]
    from training_core.marl.environments.episodes import episode_seeds

    alone, episode, expected = Relay(), 0, []
    alone.reset(seed=int(episode_seeds(4, np.array([0]), np.array([0]))[0]))
    for row in actions:
        _, _, reward, done, _ = alone.step(row)
        expected.append(reward)
        if done:
            episode += 1
            alone.reset(seed=int(episode_seeds(4, np.array([0]), np.array([episode]))[0]))
    assert found == pytest.approx(expected, abs=1e-6) and episode > 0


class Lopsided(Relay):
    """Its observations change their shape."""

    def step(self, actions: np.ndarray) -> Any:
        obs, critic, *rest = super().step(actions)
        return obs[:, :2], critic, *rest


class Masked(Relay):
    """Allows agent 0 nothing but to hold."""

    def step(self, actions: np.ndarray) -> Any:
        obs, critic, reward, done, info = super().step(actions)
        mask = np.ones((self.num_agents, 2))
        mask[0, 1] = 0
        return obs, critic, reward, done, {**info, "action_mask": mask}


class Empty:
    num_agents = 2


def test_masks_of_its_own_are_taken() -> None:
    environments = make_environments(CustomMarl(path=f"{HERE}:Masked"), 1)
    assert environments.reset(0).masks["agents"].all()
    masks = environments.step({"agents": np.zeros((1, 3), dtype=np.int64)}).view.masks["agents"]
    assert masks.tolist() == [[[True, False], [True, True], [True, True]]]


class Bare:
    """An environment that leaves its sizes to its factory."""

    def __init__(self, num_agents: int, max_cycles: int) -> None:
        self._relay = Relay(num_agents, most_steps=max_cycles)

    def reset(self, seed: int | None = None) -> Any:
        return self._relay.reset(seed)

    def step(self, actions: Any) -> Any:
        return self._relay.step(actions)


def factory(num_agents: int, seed: int, max_cycles: int, **kwargs: Any) -> tuple[Bare, int, int, int]:
    """What MARLKit's register_env("my_env", factory) takes."""
    assert kwargs == {"extra": 1} and seed == 0
    return Bare(num_agents, max_cycles), 3, 2, num_agents


def test_a_factory_of_marlkit_makes_environments_and_they_are_learnt() -> None:
    args = {"num_agents": 4, "seed": 0, "max_cycles": 7, "extra": 1}
    environment = {"type": "custom_marl", "path": f"{HERE}:factory", "args": args}
    tree = {
        "team": {"roles": {"agents": {"policy": "agents"}}}, "policies": {"agents": {}}, "environment": environment,
        "rollout": {"environments": 2, "steps": 14}, "run": {"iterations": 1},
    }  # fmt: skip
    trainer = MarlTrainer(MarlConfig.model_validate(tree))
    role = trainer.spec.roles["agents"]
    assert (len(role.agents), role.observation_dim, role.actions) == (4, 3, Choices(2))
    collected = trainer.collect(1)
    assert {played.length for played in collected.episodes} <= set(range(1, 8)) and collected.episodes
    assert trainer.update(1)["agents"]["grad_norm"] > 0


def test_what_breaks_the_contract_is_told() -> None:
    with pytest.raises(ConfigError, match="Empty has no obs_dim, action_dim, reset, step"):
        make_environments(CustomMarl(path=f"{HERE}:Empty"), 1)
    with pytest.raises(ConfigError, match=r"environment\.args"):
        make_environments(CustomMarl(path="examples.custom.relay:Relay", args={"speed": 1}), 1)
    environments = make_environments(CustomMarl(path=f"{HERE}:Lopsided"), 2)
    environments.reset(0)
    failures = environments.step({"agents": np.zeros((2, 3), dtype=np.int64)}).failures
    assert "Lopsided, step: ValueError: obs (3, 2)" in failures[0].error and set(failures) == {0, 1}


class RolloutValues(Relay):
    """Says whether it succeeded: of the team, or of each agent."""

    def __init__(self, each: bool = False, **args: Any) -> None:
        super().__init__(**args)
        self._each = each

    def step(self, actions: np.ndarray) -> Any:
        obs, critic, reward, done, info = super().step(actions)
        won = self._passed >= self._goal
        said = np.arange(self.num_agents) > 0 if self._each else won
        return obs, critic, reward, done, {**info, "success": said}


def test_success_is_what_the_last_info_of_an_episode_says() -> None:
    args = {"num_agents": 2, "laps": 1, "most_steps": 3}
    environments = make_environments(CustomMarl(path=f"{HERE}:RolloutValues", args=args), 2)
    environments.reset(0)
    acts = {"agents": np.array([[1, 1], [0, 0]])}
    steps = [environments.step(acts) for _ in range(3)]
    assert [step.successes for step in steps] == [{}, {0: Success(True)}, {1: Success(False)}]
    environments = make_environments(CustomMarl(path=f"{HERE}:RolloutValues", args=args | {"each": True}), 1)
    environments.reset(0)
    environments.step({"agents": np.ones((1, 2), dtype=np.int64)})
    told = environments.step({"agents": np.ones((1, 2), dtype=np.int64)}).successes
    assert told == {0: Success(agents={"agent_0": False, "agent_1": True})}

"""simple_spread on a device has the numbers of the native environment."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.training_core.marl.other_device import META, MadeUp
from tests.training_core.marl.test_other_device import elsewhere as elsewhere
from training_core.config.files import parse_config
from training_core.config.marl import MarlConfig
from training_core.errors import ConfigError
from training_core.marl.environments.config import SimpleSpread
from training_core.marl.environments.registry import make_environments
from training_core.marl.trainer import MarlTrainer

WORLDS = 7


def both(**settings: Any) -> tuple[Any, Any]:
    native, other = (
        make_environments(SimpleSpread(backend=backend, **settings), WORLDS)
        for backend in ("native", "torch")
    )
    return native, other


def check_equal(native: Any, other: Any) -> None:
    for role, rows in native.items():
        np.testing.assert_allclose(other[role].numpy(), rows, rtol=1e-6, atol=1e-6)
        assert other[role].dtype == torch.float32


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize(("agents", "local_ratio"), [(1, 0.5), (3, 0.0), (5, 1.0)])
def test_episodes_equal_those_of_the_native_worlds(continuous: bool, agents: int, local_ratio: float) -> None:
    native, other = both(
        num_agents=agents, local_ratio=local_ratio, continuous_actions=continuous, max_cycles=30
    )
    check_equal(native.reset(3).observations, other.reset(3).observations)
    crowd = np.random.default_rng(1).uniform(-0.2, 0.2, native.world.positions.shape)
    for environment in (native, other):
        environment.world.place(crowd)  # so that bodies meet
    numbers = np.random.default_rng(0)
    touching = 0
    for _ in range(64):
        shape = (WORLDS, agents, 5) if continuous else (WORLDS, agents)
        actions: Any = (
            numbers.uniform(-0.2, 1.2, shape).astype(np.float32)
            if continuous
            else numbers.integers(0, 5, shape)
        )
        one, two = native.step({"agents": actions}), other.step({"agents": torch.from_numpy(actions)})
        touching += int((native.world.distances[:, agents:] < native.world.reach[:, agents:]).sum())
        check_equal(one.view.observations, two.view.observations)
        check_equal(one.rewards, two.rewards)
        assert (one.truncated == two.truncated).all() and (one.terminated == two.terminated).all()
        if one.final is not None:
            check_equal(one.final.observations, two.final.observations)
    assert touching or agents == 1
    board, expected = other.board(2), native.board(2)
    assert [entity["name"] for entity in board["entities"]] == [
        entity["name"] for entity in expected["entities"]
    ]
    assert board["entities"][0]["x"] == pytest.approx(expected["entities"][0]["x"])


def test_unfinished_episodes_continue() -> None:
    environment, other = (make_environments(SimpleSpread(backend="torch"), WORLDS) for _ in range(2))
    environment.reset(1)
    actions: Any = {"agents": torch.ones(WORLDS, 3, dtype=torch.int64)}
    for _ in range(5):
        environment.step(actions)
    state = environment.episode_state()
    assert state is not None
    view = other.restore(state)
    assert view is not None
    one, two = environment.step(actions), other.step(actions)
    assert torch.equal(one.view.observations["agents"], two.view.observations["agents"])


def config(backend: str, **more: Any) -> MarlConfig:
    parsed = parse_config(
        {
            "run": {"name": "device", "iterations": 3},
            "team": {"roles": {"agents": {"policy": "one"}}},
            "policies": {"one": {"network": {"type": "gru", "hidden_dim": 16, "recurrent_hidden_dim": 16}}},
            "algorithm": {"type": "mappo"},
            "environment": {"type": "mpe_simple_spread", "backend": backend, "max_cycles": 10},
            "rollout": {"environments": 4, "steps": 25},
            **more,
        }
    )
    assert isinstance(parsed, MarlConfig)
    return parsed


def curve(trainer: MarlTrainer) -> list[dict[str, float]]:
    rows = []
    for iteration in (1, 2):
        episodes = trainer.collect(iteration).episodes
        rows.append(
            trainer.update(iteration)["one"] | {"return": sum(part.rewards["agents"] for part in episodes)}
        )
    rows.append({"greedy": sum(part.rewards["agents"] for part in trainer.evaluate(True, 4, 1).episodes)})
    return rows


def test_training_equals_that_on_native_worlds(tmp_path: Path) -> None:
    native, other = MarlTrainer(config("native")), MarlTrainer(config("torch"))
    for one, two in zip(curve(native), curve(other), strict=True):
        assert two == pytest.approx(one, rel=1e-4, abs=1e-5)
    other.collect(3)
    other.update(3)
    other.save(tmp_path)
    resumed = MarlTrainer(config("torch"))
    resumed.load(tmp_path)
    for trainer in (other, resumed):
        trainer.collect(4)
    assert resumed.update(4) == other.update(4)


@pytest.mark.extended
def test_worlds_follow_the_networks_to_their_device(elsewhere: None) -> None:
    with MadeUp():
        trainer = MarlTrainer(config("torch"))
        trainer.collect(1)
        trainer.update(1)
        trainer.evaluate(True, 2, 1)
    environment: Any = trainer._runner.environment
    assert environment.world.positions.device == META
    assert trainer._runner.view is not None
    assert trainer._runner.view.observations["agents"].device == META  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"resources": {"environment_workers": 2}}, "environment_workers = 0"),
        (
            {
                "environment": {
                    "type": "mpe_simple_spread",
                    "backend": "torch",
                    "supersuit": {"frame_stack": 2},
                }
            },
            "no wrappers",
        ),
    ],
)
def test_what_worlds_on_a_device_cannot_do_is_refused(more: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config("torch", **more)

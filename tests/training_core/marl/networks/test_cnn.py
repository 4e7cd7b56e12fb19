"""Convolutional networks: against loops over pixels, and a game that is solved from its pictures."""

from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from pettingzoo import ParallelEnv

from training_core.config.files import parse_config
from training_core.config.marl import MarlConfig
from training_core.errors import ConfigError
from training_core.marl.environments.base import Pictures
from training_core.marl.networks.agents import make_backbone
from training_core.marl.networks.config import Cnn
from training_core.marl.trainer import MarlTrainer


def convolved(picture: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """(C, H, W) -> (F, H', W'): ReLU of a 3 x 3 convolution with a border of zeros, pixel by pixel."""
    padded = np.pad(picture, ((0, 0), (1, 1), (1, 1)))
    rows, columns = (range(0, side, stride) for side in picture.shape[1:])
    out = [
        [[(padded[:, i : i + 3, j : j + 3] * one).sum() + own for j in columns] for i in rows]
        for one, own in zip(weight, bias, strict=True)
    ]
    return np.maximum(np.array(out), 0.0)


@pytest.mark.parametrize("channels", ["last", "first"])
def test_two_pictures_and_other_numbers_are_those_of_a_loop_over_pixels(channels: str) -> None:
    shape = (10, 9, 2) if channels == "last" else (2, 10, 9)
    config = Cnn(filters=(3, 4), hidden_dim=5, channels=channels)
    made = make_backbone(config, 2 * 180 + 7, Pictures(shape, 1 / 255, 2))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    random = np.random.default_rng(0)
    pictures, others = random.integers(0, 256, (2, *shape)), random.normal(size=7)
    weights = {name: own.detach().double().numpy() for name, own in made.named_parameters()}
    seen = []
    for picture in pictures / 255:
        planes = picture.transpose(2, 0, 1) if channels == "last" else picture
        planes = convolved(planes, weights["convolutions.0.weight"], weights["convolutions.0.bias"], 2)
        planes = convolved(planes, weights["convolutions.2.weight"], weights["convolutions.2.bias"], 1)
        assert planes.shape == (4, 5, 5)
        seen.append(planes.ravel())
    hidden = weights["layers.0.weight"] @ np.concatenate([*seen, others]) + weights["layers.0.bias"]
    x = torch.tensor(np.concatenate([pictures.ravel(), others]), dtype=torch.float32)
    out, _ = made.step(x.expand(3, -1), ())
    np.testing.assert_allclose(out[1].detach().numpy(), np.maximum(hidden, 0.0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(made.sequence(x.expand(2, 3, -1), (), torch.zeros(2, 3))[1, 2], out[1])


class Corners(ParallelEnv):
    """A bright dot moves at every step; each agent earns 1 for naming the quadrant of its own picture."""

    metadata = {"name": "corners"}
    possible_agents = ["a", "b"]

    def __init__(self, dtype: str = "uint8", sides: tuple[int, int] = (6, 6)) -> None:
        most = 255 if dtype == "uint8" else 1
        kinds = [spaces.Box(0, most, (side, side, 1), np.dtype(dtype)) for side in sides]
        self._spaces = dict(zip(self.possible_agents, kinds, strict=True))

    def observation_space(self, agent: str) -> Any:
        return self._spaces[agent]

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(4)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        self.agents, self._random, self._steps = list(self.possible_agents), np.random.default_rng(seed), 0
        return self._seen(), {}

    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        self._steps += 1
        rewards = {agent: float(actions[agent] == self._right[agent]) for agent in self.agents}
        return self._seen(), rewards, *(dict.fromkeys(self.agents, self._steps == n) for n in (8, 9)), {}

    def _seen(self) -> dict[str, np.ndarray]:
        seen, self._right = {}, {}
        for agent, space in self._spaces.items():
            side = space.shape[0]
            row, column = self._random.integers(0, side, 2)
            seen[agent] = np.zeros(space.shape, space.dtype)
            seen[agent][row, column] = space.high.max()
            self._right[agent] = 2 * (row >= side // 2) + (column >= side // 2)
        return seen


def config(**fields: Any) -> MarlConfig:
    network = {"type": "cnn", "filters": (8, 8), "hidden_dim": 32}
    learner = {"actor_learning_rate": 0.003, "critic_learning_rate": 0.003, "minibatch_size": 256}
    tree = {
        "run": {"name": "corners", "iterations": 12},
        "team": {"roles": {"agents": {"policy": "agents"}}},
        "policies": {"agents": {"network": network, "learner": learner}},
        "environment": {"type": "pettingzoo", "path": f"{__name__}:Corners"},
        "algorithm": {"type": "mappo"},
        "rollout": {"environments": 16, "steps": 32},
    } | fields
    made = parse_config(tree)
    assert isinstance(made, MarlConfig)
    return made


@pytest.mark.extended
def test_a_game_is_solved_from_its_pictures() -> None:
    """Two agents and eight steps: 4 by chance, at most 16."""
    trainer = MarlTrainer(config())
    (learner,) = trainer.learners.values()
    assert learner.slots.pictures == Pictures((6, 6, 1), 1 / 255)
    assert learner.critic_inputs.pictures == Pictures((6, 6, 1), 1 / 255, 2)
    for iteration in range(1, 13):
        trainer.collect(iteration)
        trainer.update(iteration)
    played = trainer.evaluate(greedy=True, episodes=32).episodes
    assert mean(episode.rewards["agents"] for episode in played) > 15.0
    trainer.close()


def test_pictures_of_floats_are_not_scaled() -> None:
    section = {"type": "pettingzoo", "path": f"{__name__}:Corners", "args": {"dtype": "float32"}}
    trainer = MarlTrainer(config(environment=section))
    assert trainer.learners["agents"].slots.pictures == Pictures((6, 6, 1), 1.0)
    trainer.close()


@pytest.mark.parametrize(
    "section",
    [
        {"type": "mpe_simple_spread"},
        {"type": "pettingzoo", "path": f"{__name__}:Corners", "args": {"sides": (6, 8)}},
    ],
)
def test_observations_that_are_no_pictures_of_one_shape_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"policies\.agents\.network\.type: cnn needs observations"):
        MarlTrainer(config(environment=section))

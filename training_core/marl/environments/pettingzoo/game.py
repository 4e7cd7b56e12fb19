"""The toys as PettingZoo parallel environments: a single game with names instead of arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from training_core.marl.environments.base import View
from training_core.marl.environments.games import Game
from training_core.seeding import keyed_seed


@dataclass(frozen=True)
class Sizes:
    """Observation and action sizes of one agent."""

    observation: int
    """Size of the observation."""
    choices: int


class GameEnvironment(ParallelEnv):  # type: ignore[misc]
    """Plays a game with the single role `agents`. A reset without a seed starts the next episode of the last seed."""

    def __init__(self, name: str, game: Game, sizes: Sequence[Sizes]) -> None:
        self.metadata = {"name": name, "render_modes": []}
        self.render_mode = None
        self._game = game
        self.possible_agents = list(self._game.spec.roles["agents"].agents)
        self.agents = self.possible_agents[:]
        self._sizes = dict(zip(self.possible_agents, sizes, strict=True))
        self._seen = {
            agent: spaces.Box(-np.inf, np.inf, (size.observation,), np.float32)
            for agent, size in self._sizes.items()
        }
        self._acting = {agent: spaces.Discrete(size.choices) for agent, size in self._sizes.items()}
        self._seed, self._episode, self._steps = 0, 0, np.zeros(1, dtype=np.int64)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._seen[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._acting[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is None:
            self._episode += 1
        else:
            self._seed, self._episode = seed, 0
        drawn = keyed_seed(self._seed, self._episode) if self._episode else self._seed
        self._steps[:] = 0
        self._game.begin(np.zeros(1, dtype=np.int64), np.array([drawn], dtype=np.int64))
        self.agents = self.possible_agents[:]
        return self._by_name(self._game.view(self._steps)), {agent: {} for agent in self.agents}

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        chosen = np.array([[int(actions[agent]) for agent in self.possible_agents]])
        rewards, over = self._game.play({"agents": chosen}, self._steps)
        self._steps += 1
        cut = bool(self._steps[0] >= self._game.spec.max_steps) and not over[0]
        terminated = bool(over[0]) or (cut and self._game.last_step == "terminated")
        truncated = cut and not terminated
        there = self.agents
        if terminated or truncated:
            self.agents = []
        return (
            self._by_name(self._game.view(self._steps)),
            {agent: float(reward) for agent, reward in zip(there, rewards["agents"][0], strict=True)},
            dict.fromkeys(there, terminated),
            dict.fromkeys(there, truncated),
            {agent: {} for agent in there},
        )

    def board(self) -> dict[str, Any] | None:
        """The game's picture."""
        return self._game.board(0)

    def close(self) -> None:
        """There are no resources to release."""

    def _by_name(self, view: View) -> dict[str, Any]:
        seen = view.observations["agents"][0]
        return {
            agent: row[: self._sizes[agent].observation]
            for agent, row in zip(self.possible_agents, seen, strict=True)
        }

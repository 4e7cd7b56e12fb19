"""A PettingZoo environment whose agents leave at different steps."""

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

LIVES = {"a_0": 2, "a_1": 4, "a_2": 6}
"""How many steps each agent plays; the episode ends with the last."""


class Leavers(ParallelEnv):  # type: ignore[misc]
    """Agents of `cut` are cut off when they leave, the others terminate. Action 1 (or a first number above 0.5) earns 1 + the agent's
    place. Continuous agents have 1, 2 and 3 numbers."""

    metadata = {"name": "leavers"}

    def __init__(self, cut: tuple[str, ...] = (), continuous: bool = False) -> None:
        self.possible_agents = list(LIVES)
        self._cut, self._continuous = tuple(cut), continuous

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        width = 1 + self.possible_agents.index(agent)
        return spaces.Box(-1.0, 1.0, (width,), np.float32) if self._continuous else spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self._random = np.random.default_rng(seed)
        self.agents, self._step = self.possible_agents[:], 0
        return self._seen(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        self._step += 1
        before = self.agents
        gone = [agent for agent in before if self._step >= LIVES[agent]]
        self.agents = [agent for agent in before if agent not in gone]
        return (
            self._seen(before),
            {agent: self._earned(agent, actions[agent]) for agent in before},
            {agent: agent in gone and agent not in self._cut for agent in before},
            {agent: agent in gone and agent in self._cut for agent in before},
            {agent: {"success": self._earned(agent, actions[agent]) > 0} for agent in before},
        )

    def close(self) -> None:
        """Nothing is held."""

    def _earned(self, agent: str, action: Any) -> float:
        right = float(np.ravel(action)[0]) > 0.5 if self._continuous else action == 1
        return (1.0 + self.possible_agents.index(agent)) * right

    def _seen(self, agents: list[str]) -> dict[str, Any]:
        return {
            agent: np.array([self._step / 6, *self._random.normal(size=2)], np.float32) for agent in agents
        }


def parallel_env(**args: Any) -> Leavers:
    """One of them."""
    return Leavers(**args)

"""A custom environment with MARLKit's interface: agents pass a baton around. See docs/train/marl-environments.md."""

from typing import Any

import numpy as np

HOLD, PASS = 0, 1


class Relay:
    """Only the holder of the baton can pass it on. The team earns 1 per pass, and loses 0.1 for each other agent that tries."""

    def __init__(self, num_agents: int = 3, laps: int = 2, most_steps: int = 25) -> None:
        self.num_agents, self.obs_dim, self.action_dim = num_agents, 3, 2
        self._goal, self._most_steps = num_agents * laps, most_steps

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return observations (num_agents, 3) and the input of the centralised critic."""
        self._holder = int(np.random.default_rng(seed).integers(self.num_agents))
        self._passed, self._steps = 0, 0
        return self._observations()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, bool, dict[str, Any]]:
        """actions: (num_agents,), HOLD or PASS."""
        tries = int((actions == PASS).sum())
        passed = bool(actions[self._holder] == PASS)
        reward = float(passed) - 0.1 * (tries - int(passed))
        self._holder = (self._holder + int(passed)) % self.num_agents
        self._passed, self._steps = self._passed + int(passed), self._steps + 1
        finished = self._passed >= self._goal
        cut = self._steps >= self._most_steps and not finished
        return *self._observations(), reward, finished or cut, {"truncated": cut}

    def board(self) -> dict[str, Any]:
        """Return the agents in a row and the holder of the baton, drawn next to the steps of an episode."""
        cells = [(0, agent, "agents") for agent in range(self.num_agents)] + [(0, self._holder, "goal")]
        return {"kind": "grid", "rows": 1, "columns": self.num_agents, "cells": cells}

    def _observations(self) -> tuple[np.ndarray, np.ndarray]:
        has_it = np.arange(self.num_agents) == self._holder
        obs = np.zeros((self.num_agents, self.obs_dim), dtype=np.float32)
        obs[:, 0], obs[:, 1] = has_it, self._passed / self._goal
        obs[:, 2] = self._steps / self._most_steps
        critic_obs = np.concatenate([[self._passed], has_it]).astype(np.float32)
        return obs, critic_obs

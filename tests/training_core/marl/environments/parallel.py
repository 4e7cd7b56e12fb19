"""Small PettingZoo parallel environments that do what real ones do: masks, boxes, agents that leave or come."""

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Countdown(ParallelEnv):
    """Each agent's observation is [its number, step]; it earns its number + action.

    At step 2 one `leaves`, `vanishes` without its end, or `comes`.
    """

    metadata = {"name": "countdown"}

    def __init__(
        self, leaves: str = "", comes: str = "", box: bool = False, masks: str = "", vanishes: str = ""
    ) -> None:
        self.possible_agents = ["red_0", "blue_0", "red_1"]
        self.render_mode = None
        self._leaves, self._comes, self._masks, self._vanishes = leaves, comes, masks, vanishes
        plain = {
            agent: spaces.Box(-9, 9, (2, 1 + (agent == "blue_0")), np.float32)
            for agent in self.possible_agents
        }
        self._seen: dict[str, Any] = plain
        if masks == "observation":
            self._seen = {
                agent: spaces.Dict({"observation": space, "action_mask": spaces.MultiBinary(3)})
                for agent, space in plain.items()
            }
        self._acting: dict[str, Any] = {agent: spaces.Discrete(3, start=1) for agent in self.possible_agents}
        if box:
            self._acting = {
                "red_0": spaces.Box(-1, 1, (1, 2), np.float32),
                "red_1": spaces.Box(np.array([-3.0]), np.array([0.5]), dtype=np.float64),
                "blue_0": spaces.Box(0, 1, (3,), np.float32),
            }
        self.seeds: list[int | None] = []
        self.taken: dict[str, Any] = {}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._seen[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._acting[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        self.seeds.append(seed)
        self.step_number = 0
        self.agents = [agent for agent in self.possible_agents if agent != self._comes]
        return self._observed(self.agents), self._infos()

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        assert set(actions) == set(self.agents)
        self.taken = actions
        self.step_number += 1
        there = self.agents
        left = {self._leaves} & set(there) if self.step_number == 2 else set()
        over = self.step_number == 4
        rewards = {agent: self._number(agent) + float(np.sum(actions[agent])) for agent in there}
        terminated = {agent: agent in left for agent in there}
        truncated = dict.fromkeys(there, over)
        gone = left | ({self._vanishes} if self.step_number == 2 else set())
        self.agents = [] if over else [agent for agent in there if agent not in gone]
        if self._comes and self.step_number == 2:
            self.agents.append(self._comes)
        return self._observed({*there, *self.agents}), rewards, terminated, truncated, self._infos()

    def close(self) -> None:
        self.step_number = -1

    def _number(self, agent: str) -> int:
        return self.possible_agents.index(agent)

    def _infos(self) -> dict:
        mask = [1, self.step_number % 2, 0]
        return {
            agent: {"action_mask": mask} if self._masks == "info" else {} for agent in self.possible_agents
        }

    def _observed(self, agents: Any) -> dict:
        seen = {
            agent: np.concatenate(
                [
                    np.full((1, 1 + (agent == "blue_0")), self._number(agent)),
                    np.full((1, 1 + (agent == "blue_0")), self.step_number),
                ]
            ).astype(np.float32)
            for agent in agents
        }
        if self._masks != "observation":
            return seen
        mask = np.array([0, 1, 1], dtype=np.int8)
        return {agent: {"observation": own, "action_mask": mask} for agent, own in seen.items()}

"""A team behind Gymnasium's interface, as in level-based foraging and RWARE: spaces, observations and rewards are tuples
with an entry for each agent. PettingZoo's adapter steps it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Env, spaces

from training_core.errors import ConfigError
from training_core.marl.environments.pettingzoo import AdapterSettings, PettingZooEnvironment

PARALLEL = tuple[dict[str, Any], ...]


class GymnasiumTeam:
    """PettingZoo's parallel interface to a team. Agents are agent_0, agent_1, … and end together."""

    def __init__(self, environment: "Env[Any, Any]") -> None:
        """Raises ConfigError if agents have no observation of their own."""
        seen, acting = environment.observation_space, environment.action_space
        assert isinstance(acting, spaces.Tuple)
        if not isinstance(seen, spaces.Tuple) or len(seen) != len(acting):
            text = f"actions of {len(acting)} agents need a tuple of as many observations, not {seen}"
            raise ConfigError({"environment.id": text})
        self._env, self.unwrapped = environment, environment.unwrapped
        self.possible_agents = [f"agent_{number}" for number in range(len(acting))]
        self.agents = list(self.possible_agents)
        self.observation_space = dict(zip(self.agents, seen, strict=True)).__getitem__
        self.action_space = dict(zip(self.agents, acting, strict=True)).__getitem__

    def reset(self, seed: int) -> PARALLEL:
        observations, info = self._env.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self._by_agent(observations), dict.fromkeys(self.agents, info)

    def step(self, actions: Mapping[str, Any]) -> PARALLEL:
        chosen = tuple(actions[agent] for agent in self.agents)
        observations, rewards, terminated, truncated, info = self._env.step(chosen)
        count = len(self.agents)
        ends = (np.broadcast_to(np.asarray(flags, dtype=bool), count) for flags in (terminated, truncated))
        earned = np.broadcast_to(np.asarray(rewards, dtype=np.float32), count)
        infos = dict.fromkeys(self.agents, info)
        return self._by_agent(observations), self._by_agent(earned), *map(self._by_agent, ends), infos

    def close(self) -> None:
        self._env.close()

    def _by_agent(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.agents, values, strict=True))


def team(environment: "Env[Any, Any]") -> PettingZooEnvironment:
    """The adapter of one environment. All choices are allowed: the interface has no masks."""
    most = (environment.spec.max_episode_steps if environment.spec else None) or 0
    return PettingZooEnvironment(
        GymnasiumTeam(environment), AdapterSettings(action_masks=False, max_steps=most)
    )

"""A team behind Gymnasium's interface, as in level-based foraging and RWARE: spaces, observations and rewards are tuples
with an entry for each agent. PettingZoo's adapter steps it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from training_core.errors import ConfigError
from training_core.marl.environments.pettingzoo import AdapterSettings, PettingZooEnvironment


class GymnasiumTeam:
    """PettingZoo's parallel interface to a team: agent_0, agent_1 and so on, which end together."""

    def __init__(self, environment: Any) -> None:
        """Raises ConfigError if agents have no observation of their own."""
        seen, acting = environment.observation_space, environment.action_space
        if not isinstance(seen, type(acting)) or len(seen) != len(acting):
            text = f"actions of {len(acting)} agents need a tuple of as many observations, not {seen}"
            raise ConfigError({"environment.id": text})
        self._env, self.unwrapped, self.close = environment, environment.unwrapped, environment.close
        self.possible_agents = self.agents = [f"agent_{number}" for number in range(len(acting))]
        self.observation_space = self._by_agent(seen).__getitem__
        self.action_space = self._by_agent(acting).__getitem__

    def reset(self, seed: int) -> tuple[dict[str, Any], ...]:
        observations, info = self._env.reset(seed=seed)
        return self._by_agent(observations), dict.fromkeys(self.agents, info)

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        observations, *parts, info = self._env.step(tuple(actions[agent] for agent in self.agents))
        numbers = (np.broadcast_to(np.asarray(part), len(self.agents)) for part in parts)
        infos = dict.fromkeys(self.agents, info)
        return self._by_agent(observations), *map(self._by_agent, numbers), infos

    def _by_agent(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.agents, values, strict=True))


def team(environment: Any) -> PettingZooEnvironment:
    """The adapter of one environment. All choices are allowed: the interface has no masks."""
    most = (environment.spec.max_episode_steps if environment.spec else None) or 0
    return PettingZooEnvironment(
        GymnasiumTeam(environment), AdapterSettings(action_masks=False, max_steps=most)
    )

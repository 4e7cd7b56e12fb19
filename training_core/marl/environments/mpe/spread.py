"""simple_spread: N agents cover N landmarks and avoid each other."""

from collections.abc import Mapping

import numpy as np

from training_core.marl.environments.base import Reals
from training_core.marl.environments.mpe.config import SimpleSpread
from training_core.marl.environments.mpe.environment import MpeEnvironment, per_environment
from training_core.marl.environments.mpe.physics import Bodies

AGENT_SIZE, LANDMARK_SIZE = 0.15, 0.05


class SpreadEnvironment(MpeEnvironment):
    """An agent observes its velocity, position, all landmarks and the others (and zeros for unused communication)."""

    def __init__(self, section: SimpleSpread, count: int) -> None:
        self._agents, self._local = section.num_agents, section.local_ratio
        names = tuple(f"agent_{index}" for index in range(self._agents))
        bodies = Bodies(
            agents=self._agents,
            landmarks=self._agents,
            sizes=(AGENT_SIZE,) * self._agents + (LANDMARK_SIZE,) * self._agents,
            accelerations=(5.0,) * self._agents,
            collide="agents",
        )
        super().__init__(bodies, {"agents": names}, count, section.max_cycles, section.continuous_actions)

    def observation_dims(self) -> Mapping[str, int]:
        """Velocity, position, landmarks, others, their messages."""
        return {"agents": 4 + 2 * self._agents + 4 * (self._agents - 1)}

    def observe(self) -> dict[str, Reals]:
        """(B, N, D)."""
        world, agents = self.world, self._agents
        relative = world.relative.reshape(agents, -1, self.count)
        silence = np.zeros((agents, 2 * (agents - 1), self.count))
        parts = [world.velocities, world.positions[:agents], relative, silence]
        return {"agents": per_environment(np.concatenate(parts, axis=1))}

    def reward(self) -> dict[str, Reals]:
        """Minus the distances of landmarks to their nearest agent, shared; minus 1 per touched agent, for each agent itself."""
        distances, landmarks = self.world.distances, self._agents
        covered = -distances[:, :landmarks].min(axis=0).sum(axis=0)
        touched = (distances[:, landmarks:] < self.world.reach[:, landmarks:]).sum(axis=1)
        return {"agents": per_environment(covered * (1.0 - self._local) - touched * self._local)}

"""simple_adversary: good agents cover the goal landmark; an adversary has to guess which one it is."""

from collections.abc import Mapping

import numpy as np

from training_core.marl.environments.base import Reals
from training_core.marl.environments.mpe.config import SimpleAdversary
from training_core.marl.environments.mpe.environment import GoalEnvironment, per_environment, team_names
from training_core.marl.environments.mpe.physics import Bodies


class AdversaryEnvironment(GoalEnvironment):
    """An agent observes landmarks and the others; good agents also the goal, first."""

    def __init__(self, section: SimpleAdversary, count: int) -> None:
        good = section.num_agents
        bodies = Bodies(
            agents=good + 1,
            landmarks=good,
            sizes=(0.15,) * (good + 1) + (0.08,) * good,
            accelerations=(5.0,) * (good + 1),
        )
        super().__init__(bodies, team_names(1, good), count, section.max_cycles, section.continuous_actions)

    def observation_dims(self) -> Mapping[str, int]:
        """Sizes for landmarks and others; plus the goal."""
        seen = 2 * (self.world.relative.shape[1])
        return {"adversaries": seen, "good": seen + 2}

    def observe(self) -> dict[str, Reals]:
        """Both roles' (B, n, D)."""
        relative = self.world.relative.reshape(len(self.world.relative), -1, self.count)
        good = np.concatenate([self.to_goal()[1:], relative[1:]], axis=1)
        return {"adversaries": per_environment(relative[:1]), "good": per_environment(good)}

    def reward(self) -> dict[str, Reals]:
        """The adversary's distance from the goal, minus that of the nearest good agent; the adversary gets minus its own distance."""
        distances = self.goal_distances()
        good = distances[0] - distances[1:].min(axis=0)
        shared = np.broadcast_to(good, (len(distances) - 1, self.count))
        return {"adversaries": per_environment(-distances[:1]), "good": per_environment(shared)}

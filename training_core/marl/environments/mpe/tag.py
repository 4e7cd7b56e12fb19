"""simple_tag: slow adversaries chase faster good agents around obstacles (predator and prey)."""

from collections.abc import Mapping

import numpy as np

from training_core.marl.environments.base import Reals
from training_core.marl.environments.mpe.config import SimpleTag
from training_core.marl.environments.mpe.environment import MpeEnvironment, per_environment, team_names
from training_core.marl.environments.mpe.physics import Bodies, Floats

TOUCH = 10.0
"""Reward of a touch for adversaries, and its penalty for the good agent."""


class TagEnvironment(MpeEnvironment):
    """An agent observes its velocity, position, obstacles, the others, and the velocities of the (other) good agents."""

    def __init__(self, section: SimpleTag, count: int) -> None:
        self._chasing, self._fleeing = section.num_adversaries, section.num_good
        self._obstacles = section.num_obstacles
        bodies = Bodies(
            agents=self._chasing + self._fleeing,
            landmarks=self._obstacles,
            sizes=(0.075,) * self._chasing + (0.05,) * self._fleeing + (0.2,) * self._obstacles,
            accelerations=(3.0,) * self._chasing + (4.0,) * self._fleeing,
            max_speeds=(1.0,) * self._chasing + (1.3,) * self._fleeing,
            collide="everything",
        )
        names = team_names(self._chasing, self._fleeing)
        super().__init__(bodies, names, count, section.max_cycles, section.continuous_actions)

    def observation_dims(self) -> Mapping[str, int]:
        """Velocity, position, obstacles, others, velocities of good agents."""
        seen = 4 + 2 * (self._obstacles + self._chasing + self._fleeing - 1)
        return {"adversaries": seen + 2 * self._fleeing, "good": seen + 2 * (self._fleeing - 1)}

    def place(self, positions: Floats, chances: Floats) -> None:
        """Random positions; obstacles are not at the very edge."""
        positions[self._chasing + self._fleeing :] *= 0.9
        self.world.place(positions)

    def observe(self) -> dict[str, Reals]:
        """Both roles' (B, n, D)."""
        world, chasing, agents = self.world, self._chasing, self._chasing + self._fleeing
        relative = world.relative.reshape(agents, -1, self.count)
        seen = np.concatenate([world.velocities, world.positions[:agents], relative], axis=1)
        prey = world.velocities[chasing:].reshape(-1, self.count)
        other_prey = np.stack(self._others(world.velocities[chasing:]))
        fast = np.broadcast_to(prey, (chasing, *prey.shape))
        return {
            "adversaries": per_environment(np.concatenate([seen[:chasing], fast], axis=1)),
            "good": per_environment(np.concatenate([seen[chasing:], other_prey], axis=1)),
        }

    def reward(self) -> dict[str, Reals]:
        """Adversaries share the reward of every touch; a good agent is penalised for its own touches and for leaving the plane."""
        world, chasing = self.world, self._chasing
        adversaries = slice(self._obstacles, self._obstacles + chasing)
        touched = world.distances[chasing:, adversaries] < world.reach[chasing:, adversaries]
        touches = touched.sum(axis=1)
        outside = edge_penalty(np.abs(world.positions[chasing : chasing + self._fleeing])).sum(axis=1)
        earned = np.broadcast_to(TOUCH * touches.sum(axis=0), (chasing, self.count))
        return {
            "adversaries": per_environment(earned),
            "good": per_environment(-TOUCH * touches - outside),
        }

    def landmark(self, number: int, index: int) -> tuple[str, str]:
        """All landmarks are obstacles."""
        return f"obstacle {number}", "obstacle"

    def _others(self, values: Floats) -> list[Floats]:
        """Per good agent, the values of the other good agents: (g, 2, B) -> g times ((g - 1) * 2, B)."""
        return [np.delete(values, own, axis=0).reshape(-1, self.count) for own in range(len(values))]


def edge_penalty(away: Floats) -> Floats:
    """0 up to a distance of 0.9 from the centre, then increasing to at most 10, so that good agents cannot flee indefinitely."""
    near = (away - 0.9) * 10.0
    far = np.minimum(np.exp(np.minimum(2.0 * away - 2.0, 3.0)), 10.0)
    return np.where(away < 0.9, 0.0, np.where(away < 1.0, near, far))

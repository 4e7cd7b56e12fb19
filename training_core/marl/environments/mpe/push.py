"""simple_push: an agent goes to a landmark; an adversary, which does not know which one, keeps it away."""

from collections.abc import Mapping

import numpy as np

from training_core.marl.environments.base import Reals
from training_core.marl.environments.mpe.config import SimplePush
from training_core.marl.environments.mpe.environment import GoalEnvironment, per_environment, team_names
from training_core.marl.environments.mpe.physics import Bodies, Floats

LANDMARKS = 2
GREY, PAINT = 0.25, 0.5
"""An agent's colour, and the amount added to the channel of the goal's index."""
LANDMARK_COLOURS = np.array([0.1, 0.9, 0.1, 0.1, 0.1, 0.9])


class PushEnvironment(GoalEnvironment):
    """Both observe their velocity, landmarks and each other; the good agent also the goal, its own colour and the landmarks' colours."""

    def __init__(self, section: SimplePush, count: int) -> None:
        bodies = Bodies(
            agents=2,
            landmarks=LANDMARKS,
            sizes=(0.05,) * 4,
            accelerations=(5.0,) * 2,
            collide="agents",
        )
        super().__init__(bodies, team_names(1, 1), count, section.max_cycles, section.continuous_actions)

    def observation_dims(self) -> Mapping[str, int]:
        """8 and 19, as in mpe2."""
        return {"adversaries": 8, "good": 19}

    def observe(self) -> dict[str, Reals]:
        """Both roles' (B, 1, D)."""
        world = self.world
        relative = world.relative.reshape(2, -1, self.count)
        landmarks, other = relative[1:, : 2 * LANDMARKS], relative[1:, 2 * LANDMARKS :]
        painted = np.broadcast_to(LANDMARK_COLOURS[None, :, None], (1, 6, self.count))
        good = [world.velocities[1:], self.to_goal()[1:], self._colour(), landmarks, painted, other]
        adversary = np.concatenate([world.velocities[:1], relative[:1]], axis=1)
        return {
            "adversaries": per_environment(adversary),
            "good": per_environment(np.concatenate(good, axis=1)),
        }

    def reward(self) -> dict[str, Reals]:
        """Minus the good agent's distance from the goal; the adversary's is that distance minus its own."""
        distances = self.goal_distances()
        return {
            "adversaries": per_environment(distances[1:] - distances[:1]),
            "good": per_environment(-distances[1:]),
        }

    def _colour(self) -> Floats:
        """Colour (1, 3, B) of the good agent."""
        channels = np.arange(3)[:, None]
        colour: Floats = GREY + PAINT * (channels == self.goals + 1)[None]
        return colour

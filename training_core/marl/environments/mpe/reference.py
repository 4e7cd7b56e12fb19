"""simple_reference: two agents tell each other which landmark to go to."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.marl.environments.base import Reals
from training_core.marl.environments.mpe.config import SimpleReference
from training_core.marl.environments.mpe.environment import MpeEnvironment, per_environment
from training_core.marl.environments.mpe.physics import Bodies, Floats

LANDMARKS = 3
COLOURS = np.array([[0.75, 0.25, 0.25], [0.25, 0.75, 0.25], [0.25, 0.25, 0.75]])
COLOUR_NAMES = ("red", "green", "blue")
OTHER = [1, 0]


class ReferenceEnvironment(MpeEnvironment):
    """An agent observes its velocity, landmarks, the colour of the other's target, and the other's message."""

    symbols = 10
    chances = 2

    def __init__(self, section: SimpleReference, count: int) -> None:
        self._local = section.local_ratio
        self.goals: NDArray[Any] = np.zeros((2, count), dtype=np.int64)
        """(2, B): the target of the other agent, which each agent knows."""
        bodies = Bodies(
            agents=2, landmarks=LANDMARKS, sizes=(0.05,) * (2 + LANDMARKS), accelerations=(5.0,) * 2
        )
        names = {"agents": ("agent_0", "agent_1")}
        super().__init__(bodies, names, count, section.max_cycles, section.continuous_actions)

    def observation_dims(self) -> Mapping[str, int]:
        """21, as in mpe2."""
        return {"agents": 2 + 2 * LANDMARKS + 3 + self.symbols}

    def place(self, positions: Floats, chances: Floats) -> None:
        """Random positions, and a random target for each."""
        self.goals = (chances * LANDMARKS).astype(np.int64)
        self.world.place(positions)

    def observe(self) -> dict[str, Reals]:
        """(B, 2, 21)."""
        landmarks = self.world.relative[:, :LANDMARKS].reshape(2, -1, self.count)
        colours = COLOURS[self.goals].transpose(0, 2, 1)
        parts = [self.world.velocities, landmarks, colours, self.said[OTHER]]
        return {"agents": per_environment(np.concatenate(parts, axis=1))}

    def reward(self) -> dict[str, Reals]:
        """Minus the other agent's distance from its target, partly each agent's own and partly the mean of both."""
        to_landmarks = self.world.distances[OTHER, :LANDMARKS]
        far = np.take_along_axis(to_landmarks, self.goals[:, None], axis=1)[:, 0]
        return {"agents": per_environment(-(far.mean(axis=0) * (1.0 - self._local) + far * self._local))}

    def landmark(self, number: int, index: int) -> tuple[str, str]:
        """Landmarks in the colours that agents observe."""
        return COLOUR_NAMES[number], "landmark"

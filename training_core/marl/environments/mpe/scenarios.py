"""The scenarios of the native multi-particle environments: each adds bodies, observations and rewards."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.marl.environments.base import Reals
from training_core.marl.environments.config import (
    SimpleAdversary,
    SimplePush,
    SimpleReference,
    SimpleSpread,
    SimpleTag,
)
from training_core.marl.environments.mpe.world import (
    Bodies,
    Floats,
    GoalEnvironment,
    MpeEnvironment,
    per_environment,
    team_names,
)

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


REFERENCE_LANDMARKS = 3
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
            agents=2,
            landmarks=REFERENCE_LANDMARKS,
            sizes=(0.05,) * (2 + REFERENCE_LANDMARKS),
            accelerations=(5.0,) * 2,
        )
        names = {"agents": ("agent_0", "agent_1")}
        super().__init__(bodies, names, count, section.max_cycles, section.continuous_actions)

    def observation_dims(self) -> Mapping[str, int]:
        """21, as in mpe2."""
        return {"agents": 2 + 2 * REFERENCE_LANDMARKS + 3 + self.symbols}

    def place(self, positions: Floats, chances: Floats) -> None:
        """Random positions, and a random target for each."""
        self.goals = (chances * REFERENCE_LANDMARKS).astype(np.int64)
        self.world.place(positions)

    def observe(self) -> dict[str, Reals]:
        """(B, 2, 21)."""
        landmarks = self.world.relative[:, :REFERENCE_LANDMARKS].reshape(2, -1, self.count)
        colours = COLOURS[self.goals].transpose(0, 2, 1)
        parts = [self.world.velocities, landmarks, colours, self.said[OTHER]]
        return {"agents": per_environment(np.concatenate(parts, axis=1))}

    def reward(self) -> dict[str, Reals]:
        """Minus the other agent's distance from its target, partly each agent's own and partly the mean of both."""
        to_landmarks = self.world.distances[OTHER, :REFERENCE_LANDMARKS]
        far = np.take_along_axis(to_landmarks, self.goals[:, None], axis=1)[:, 0]
        return {"agents": per_environment(-(far.mean(axis=0) * (1.0 - self._local) + far * self._local))}

    def landmark(self, number: int, index: int) -> tuple[str, str]:
        """Landmarks in the colours that agents observe."""
        return COLOUR_NAMES[number], "landmark"


PUSH_LANDMARKS = 2
GREY, PAINT = 0.25, 0.5
"""An agent's colour, and the amount added to the channel of the goal's index."""
LANDMARK_COLOURS = np.array([0.1, 0.9, 0.1, 0.1, 0.1, 0.9])


class PushEnvironment(GoalEnvironment):
    """Both observe their velocity, landmarks and each other; the good agent also the goal, its own colour and the landmarks' colours."""

    def __init__(self, section: SimplePush, count: int) -> None:
        bodies = Bodies(
            agents=2,
            landmarks=PUSH_LANDMARKS,
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
        landmarks, other = relative[1:, : 2 * PUSH_LANDMARKS], relative[1:, 2 * PUSH_LANDMARKS :]
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

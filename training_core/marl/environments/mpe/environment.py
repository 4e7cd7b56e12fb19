"""Base of the native multi-particle environments: actions, episodes, pictures. A scenario adds bodies, observations and rewards."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.errors import EnvironmentFailure
from training_core.marl.environments.base import (
    Actions,
    Choices,
    Continuous,
    Reals,
    RoleSpec,
    Spec,
    Transition,
    View,
    last_boards,
)
from training_core.marl.environments.episode_state import Arrays, array_attributes, restore_attributes
from training_core.marl.environments.mpe.physics import TIME_STEP, Bodies, Floats, World
from training_core.marl.environments.seeds import draws, episode_seeds

MOVES = ("stay", "left", "right", "down", "up")
ACROSS = np.array([0.0, -1.0, 1.0, 0.0, 0.0])
UP = np.array([0.0, 0.0, 0.0, -1.0, 1.0])
SHOWN = 1.2
"""A picture shows at least this distance from the centre."""


class MpeEnvironment(ABC):
    """B worlds that begin and end together, after `max_cycles` steps. Actions are discrete moves, or five numbers
    from 0 to 1 (the first is unused, then left, right, down, up).
    """

    symbols = 0
    """Number of symbols that an agent can communicate, in addition to moving."""
    chances = 0
    """Random numbers for the start of an episode, in addition to those for positions."""

    def __init__(
        self,
        bodies: Bodies,
        roles: Mapping[str, tuple[str, ...]],
        count: int,
        max_cycles: int,
        continuous: bool,
    ) -> None:
        self.world, self.count = World(bodies, count), count
        self._continuous, self._steps = continuous, 0
        self._seed: int | NDArray[np.int64] = 0
        """Of all worlds, or of each (B,)."""
        self._episode = 0
        self._numbers = np.arange(count, dtype=np.int64)
        actions = self._actions()
        self.spec = Spec(
            {role: RoleSpec(names, self.observation_dims()[role], actions) for role, names in roles.items()},
            max_steps=max_cycles,
        )
        self._names = tuple(name for names in roles.values() for name in names)
        self.said: Floats = np.zeros((bodies.agents, self.symbols, count))
        """(n, symbols, B): each agent's message in the last step."""

    @abstractmethod
    def observation_dims(self) -> Mapping[str, int]:
        """D by role."""

    @abstractmethod
    def observe(self) -> dict[str, Reals]:
        """By role (B, n, D)."""

    @abstractmethod
    def reward(self) -> dict[str, Reals]:
        """By role (B, n), in the current state."""

    def place(self, positions: Floats, chances: Floats) -> None:
        """Begin from `positions` (E, 2, B), drawn within 1 of the centre; `chances` (c, B) in [0, 1) are for other draws."""
        self.world.place(positions)

    def reset(self, seed: int, first: int = 0) -> View:
        """New episodes; each environment's depend on `seed` and its own number."""
        self._seed, self._episode = seed, 0
        self._numbers = first + np.arange(self.count, dtype=np.int64)
        return self._begin()

    def reset_seeds(self, seeds: Sequence[int], worlds: int) -> View:
        """New episodes: for every seed, `worlds` worlds with the episodes of `reset(seed)`."""
        self._seed, self._episode = np.repeat(np.asarray(seeds, dtype=np.int64), worlds), 0
        self._numbers = np.tile(np.arange(worlds, dtype=np.int64), len(seeds))
        return self._begin()

    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        """Step all worlds. Raises EnvironmentFailure for invalid actions."""
        self.world.step(self._controls(self._chosen(actions)))
        self._steps += 1
        rewards, view = self.reward(), View(self.observe())
        over = self._steps >= self.spec.max_steps
        ended = np.full(self.count, over)
        never = np.zeros_like(ended)
        if not over:
            return Transition(view, rewards, never, ended)
        boards = last_boards(self, watched, ended)
        return Transition(self._begin(), rewards, never, ended, view, boards)

    def board(self, index: int) -> dict[str, Any]:
        """A plane with agents and landmarks; its bounds grow with distant agents."""
        entities = [self._entity(number, index) for number in range(len(self.world.positions))]
        edge = max(SHOWN, float(np.ceil(np.abs(self.world.positions[:, :, index]).max() * 2) / 2))
        return {"kind": "plane", "bounds": [-edge, -edge, edge, edge], "entities": entities}

    def episode_state(self) -> Arrays | None:
        """Positions, velocities and counters."""
        counters = np.array([self._steps, self._seed, self._episode], dtype=np.int64)
        return {
            "counters": counters,
            **array_attributes(self, "environment"),
            **array_attributes(self.world, "world"),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        """Continue from stored arrays; returns the view of the restored step."""
        self._steps, self._seed, self._episode = arrays["counters"].tolist()
        restore_attributes(self, "environment", arrays)
        restore_attributes(self.world, "world", arrays)
        return View(self.observe())

    def close(self) -> None:  # noqa: B027  (nothing to give back, whatever the scenario)
        """There are no resources to release."""

    def landmark(self, number: int, index: int) -> tuple[str, str]:
        """Name and kind of a landmark in a picture of one world."""
        return f"landmark {number}", "landmark"

    def _entity(self, number: int, index: int) -> dict[str, Any]:
        world, agents = self.world, self.world.bodies.agents
        name, kind = (
            (self._names[number], "agent") if number < agents else self.landmark(number - agents, index)
        )
        across, up = (float(value) for value in world.positions[number, :, index])
        entity = {"name": name, "kind": kind, "x": across, "y": up, "radius": world.bodies.sizes[number]}
        if kind == "agent":
            entity["velocity"] = [float(value) * TIME_STEP for value in world.velocities[number, :, index]]
        return entity

    def _actions(self) -> Choices | Continuous:
        if self._continuous:
            width = len(MOVES) + self.symbols
            return Continuous((0.0,) * width, (1.0,) * width)
        if not self.symbols:
            return Choices(len(MOVES), MOVES)
        letters = [chr(ord("A") + symbol) for symbol in range(self.symbols)]
        return Choices(
            len(MOVES) * self.symbols, tuple(f"{move}, says {letter}" for letter in letters for move in MOVES)
        )

    def _begin(self) -> View:
        places = self.world.positions.shape[0] * 2
        seeds = episode_seeds(self._seed, self._numbers, np.full_like(self._numbers, self._episode))
        drawn = draws(seeds, 0, places + self.chances).T
        self._steps, self._episode = 0, self._episode + 1
        self.said[:] = 0.0
        self.place(2.0 * drawn[:places].reshape(self.world.positions.shape) - 1.0, drawn[places:])
        return View(self.observe())

    def _chosen(self, actions: Mapping[str, Actions]) -> Any:
        """All agents' actions (B, n, ...)."""
        return np.concatenate([actions[role] for role in self.spec.roles], axis=1)

    def _controls(self, actions: Actions) -> Floats:
        """The agents' forces (n, 2, B); their messages are stored."""
        controls: Floats = np.empty(self.world.velocities.shape)
        if self._continuous:
            wish = np.clip(actions, 0.0, 1.0).transpose(1, 2, 0)
            np.subtract(wish[:, 2], wish[:, 1], out=controls[:, 0])
            np.subtract(wish[:, 4], wish[:, 3], out=controls[:, 1])
            self.said[:] = wish[:, len(MOVES) :]
            return controls
        chosen = self._checked(actions).T
        if self.symbols:
            chosen, symbols = chosen % len(MOVES), chosen // len(MOVES)
            self.said[:] = symbols[:, None] == np.arange(self.symbols)[:, None]
        np.take(ACROSS, chosen, out=controls[:, 0], mode="clip")
        np.take(UP, chosen, out=controls[:, 1], mode="clip")
        return controls

    def _checked(self, choices: NDArray[Any]) -> NDArray[Any]:
        most = len(MOVES) * max(1, self.symbols)
        if choices.min() < 0 or choices.max() >= most:
            world, agent = np.argwhere((choices < 0) | (choices >= most))[0]
            raise EnvironmentFailure(
                f"environment {world}: {self._names[agent]} has no action {choices[world, agent]}; use 0 to {most - 1}"
            )
        return choices


class GoalEnvironment(MpeEnvironment):
    """One landmark is the goal, the same for all agents."""

    chances = 1

    goals: NDArray[Any]
    """(B,): index of the landmark, drawn at the start of an episode."""

    def place(self, positions: Floats, chances: Floats) -> None:
        """Random positions and a random goal."""
        self.goals = (chances[0] * self.world.bodies.landmarks).astype(np.int64)
        self.world.place(positions)

    def to_goal(self) -> Floats:
        """(n, 2, B): the goal relative to each agent."""
        return np.take_along_axis(self.world.relative, self.goals[None, None, None], axis=1)[:, 0]

    def goal_distances(self) -> Floats:
        """(n, B)."""
        return np.take_along_axis(self.world.distances, self.goals[None, None], axis=1)[:, 0]

    def landmark(self, number: int, index: int) -> tuple[str, str]:
        """Label the goal."""
        return ("goal" if number == self.goals[index] else f"landmark {number}"), "landmark"


def team_names(adversaries: int, good: int) -> dict[str, tuple[str, ...]]:
    """Agents of two sides by role, named as in mpe2."""
    return {
        "adversaries": tuple(f"adversary_{index}" for index in range(adversaries)),
        "good": tuple(f"agent_{index}" for index in range(good)),
    }


def per_environment(values: NDArray[Any]) -> Reals:
    """(…, B) -> (B, …) in float32."""
    result: Reals = np.ascontiguousarray(np.moveaxis(values, -1, 0), dtype=np.float32)
    return result

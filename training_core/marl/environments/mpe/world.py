"""The native multi-particle environments (MPE), B worlds together, with the numerical results of mpe2: their physics, and the base of
the scenarios (actions, episodes, pictures).

Entities are discs in a plane, agents first, then landmarks. Agents are driven by forces, slowed by damping, and repel each other on
contact. The environment is the last axis of every array, so that operations run along it. Source: Lowe et al. 2017, arXiv
1706.02275; the constants are those of mpe2.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
    plane,
)
from training_core.marl.environments.episodes import (
    Arrays,
    array_attributes,
    draws,
    episode_seeds,
    restore_attributes,
)

Floats = NDArray[np.float64]

TIME_STEP = 0.1
DAMPING = 0.25
"""Share of the velocity lost per step."""
CONTACT_FORCE = 100.0
CONTACT_MARGIN = 1e-3
"""Softening distance of a contact."""
NEGLIGIBLE = -40.0
"""Gaps above this many margins have a force below 1e-15, treated as zero."""


@dataclass(frozen=True)
class Bodies:
    """Properties of the entities: agents first, then landmarks; all have mass 1."""

    agents: int
    landmarks: int
    sizes: tuple[float, ...]
    """Radius of every entity."""
    accelerations: tuple[float, ...]
    """Factor of every agent's forces."""
    max_speeds: tuple[float, ...] = ()
    """Maximum speed of every agent; empty without a limit."""
    collide: Literal["nothing", "agents", "everything"] = "nothing"
    """Which contacts repel: between agents, or also with landmarks."""


class World:
    """B worlds of the same bodies: n agents, L landmarks, E = n + L entities."""

    def __init__(self, bodies: Bodies, count: int) -> None:
        agents, entities = bodies.agents, bodies.agents + bodies.landmarks
        self.bodies, self.count = bodies, count
        self.positions: Floats = np.zeros((entities, 2, count))
        self.velocities: Floats = np.zeros((agents, 2, count))
        self.relative: Floats = np.zeros((agents, entities - 1, 2, count))
        """(n, E - 1, 2, B): landmarks, then other agents, relative to each agent."""
        self.distances: Floats = np.zeros((agents, entities - 1, count))
        """(n, E - 1, B): distances of the same."""
        landmarks = list(range(agents, entities))
        self.seen = np.array(
            [landmarks + [other for other in range(agents) if other != own] for own in range(agents)],
            dtype=np.intp,
        )
        """(n, E - 1): entities in the order of `relative`."""
        sizes = np.array(bodies.sizes)
        self._first_met = {"nothing": entities - 1, "agents": bodies.landmarks, "everything": 0}[
            bodies.collide
        ]
        self.reach: Floats = (sizes[:agents, None] + sizes[self.seen])[:, :, None]
        """(n, E - 1, 1): distances below which an agent touches the entity."""
        self._accelerations = np.array(bodies.accelerations)[:, None, None]
        self._max_speeds = np.array(bodies.max_speeds)[:, None]

    def place(self, positions: Floats) -> None:
        """Place all entities at positions (E, 2, B), at rest."""
        self.positions[:] = positions
        self.velocities[:] = 0.0
        self.update_relative()

    def step(self, controls: Floats) -> None:
        """Move by one step; `controls` (n, 2, B) are the agents' controls, at most 1 along each axis."""
        force = controls * self._accelerations
        self._push_apart(force)
        self.positions[: self.bodies.agents] += self.velocities * TIME_STEP
        self.velocities *= 1.0 - DAMPING
        force *= TIME_STEP
        self.velocities += force
        if self._max_speeds.size:
            speeds = np.sqrt(np.square(self.velocities).sum(axis=1))
            self.velocities *= (self._max_speeds / np.maximum(speeds, self._max_speeds))[:, None]
        self.update_relative()

    def update_relative(self) -> None:
        """Update `relative` and `distances` from the positions; needed after positions are changed directly."""
        agents, seen = self.seen.shape
        np.take(
            self.positions,
            self.seen.ravel(),
            axis=0,
            out=self.relative.reshape(agents * seen, 2, self.count),
            mode="clip",
        )
        self.relative -= self.positions[:agents, None]
        across, up = self.relative[:, :, 0], self.relative[:, :, 1]
        np.multiply(across, across, out=self.distances)
        self.distances += up * up
        np.sqrt(self.distances, out=self.distances)

    def _push_apart(self, force: Floats) -> None:
        """Add to each agent's force (n, 2, B) the contact forces: softplus of the penetration depth."""
        contacts = slice(self._first_met, None)
        distances = self.distances[:, contacts]
        depth = (self.reach[:, contacts] - distances) / CONTACT_MARGIN
        touching = np.nonzero(depth > NEGLIGIBLE)
        if not len(touching[0]):
            return
        push = CONTACT_FORCE * CONTACT_MARGIN * np.logaddexp(0.0, depth[touching])
        scale = np.zeros_like(distances)
        # Two entities at the same position have no direction of repulsion.
        scale[touching] = push / np.maximum(distances[touching], 1e-12)
        force -= np.einsum("ncb,ncdb->ndb", scale, self.relative[:, contacts])


MOVES = ("stay", "left", "right", "down", "up")
ACROSS = np.array([0.0, -1.0, 1.0, 0.0, 0.0])
UP = np.array([0.0, 0.0, 0.0, -1.0, 1.0])


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
        return plane([self._entity(number, index) for number in range(len(self.world.positions))])

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
                f"environment {world}: {self._names[agent]} has no action {choices[world, agent]}",
                remedy=f"use 0 to {most - 1}",
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

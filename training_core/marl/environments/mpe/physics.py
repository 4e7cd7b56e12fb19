"""The physics of the multi-particle environments (MPE), for B worlds together, with the numerical results of mpe2's
`core.World`.

Entities are discs in a plane, agents first, then landmarks. Agents are driven by forces, slowed by damping, and repel
each other on contact. The environment is the last axis of every array, so that operations run along it. Source: Lowe
et al. 2017, arXiv 1706.02275; the constants are those of mpe2.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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

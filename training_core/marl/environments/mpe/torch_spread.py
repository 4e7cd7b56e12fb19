"""simple_spread on a device: the native environment's numbers, with all B worlds as tensors.

Observations and rewards stay on the device; only the start of an episode is drawn on the host, from the same seeds as
the native environment's.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training_core.marl.environments.base import Actions, Reals, View
from training_core.marl.environments.config import SimpleSpread
from training_core.marl.environments.episodes import Arrays
from training_core.marl.environments.mpe.scenarios import SpreadEnvironment
from training_core.marl.environments.mpe.world import (
    ACROSS,
    CONTACT_FORCE,
    CONTACT_MARGIN,
    DAMPING,
    NEGLIGIBLE,
    TIME_STEP,
    UP,
    Bodies,
    Floats,
    World,
)


class TorchWorld:
    """B worlds of the same bodies, as in physics.World, whose attributes it has as float64 tensors."""

    def __init__(self, bodies: Bodies, count: int, device: torch.device) -> None:
        host = World(bodies, count)
        self.bodies, self.count, self.device = bodies, count, device
        self.positions, self.velocities, self.relative, self.distances, self.reach, self._accelerations = (
            torch.from_numpy(part).to(device)
            for part in (
                host.positions,
                host.velocities,
                host.relative,
                host.distances,
                host.reach,
                np.array(bodies.accelerations)[:, None, None],
            )
        )
        self._seen = torch.from_numpy(host.seen).to(device)

    def place(self, positions: Floats) -> None:
        """Place all entities at positions (E, 2, B) of the host, at rest."""
        self.positions = torch.from_numpy(np.ascontiguousarray(positions)).to(self.device)
        self.velocities = torch.zeros_like(self.velocities)
        self.update_relative()

    def step(self, controls: Tensor) -> None:
        """Move by one step; `controls` (n, 2, B) are the agents' controls, at most 1 along each axis."""
        agents = self.bodies.agents
        force = controls * self._accelerations - self._contacts()
        moved = self.positions[:agents] + self.velocities * TIME_STEP
        self.positions = torch.cat([moved, self.positions[agents:]])
        self.velocities = self.velocities * (1.0 - DAMPING) + force * TIME_STEP
        self.update_relative()

    def update_relative(self) -> None:
        """Update `relative` and `distances` from the positions."""
        agents = self.bodies.agents
        self.relative = self.positions[self._seen] - self.positions[:agents, None]
        self.distances = self.relative.square().sum(2).sqrt()

    def _contacts(self) -> Tensor:
        """Forces (n, 2, B) towards touching agents, to be subtracted: softplus of the penetration depth."""
        others = slice(self.bodies.landmarks, None)
        distances = self.distances[:, others]
        depth = (self.reach[:, others] - distances) / CONTACT_MARGIN
        push = CONTACT_FORCE * CONTACT_MARGIN * torch.logaddexp(torch.zeros_like(depth), depth)
        scale = torch.where(depth > NEGLIGIBLE, push / distances.clamp_min(1e-12), 0.0)
        return (scale.unsqueeze(2) * self.relative[:, others]).sum(1)


class TorchSpreadEnvironment(SpreadEnvironment):
    """simple_spread with its state on `device`; `move` selects the device before the first reset."""

    world: TorchWorld  # type: ignore[assignment]  # all that the native environment reads of one

    def __init__(self, section: SimpleSpread, count: int) -> None:
        super().__init__(section, count)
        self.device = torch.device("cpu")
        self.move(self.device)

    def move(self, device: torch.device) -> None:
        """Allocate the worlds on a device. Unfinished episodes are lost."""
        self.device = device
        self.world = TorchWorld(self.world.bodies, self.count, device)
        self._moves = torch.from_numpy(np.stack([ACROSS, UP])).to(device)

    def observe(self) -> dict[str, Reals]:
        """(B, N, D), on the device."""
        world, agents = self.world, self._agents
        relative = world.relative.reshape(agents, -1, self.count)
        silence = relative.new_zeros(agents, 2 * (agents - 1), self.count)
        parts = torch.cat([world.velocities, world.positions[:agents], relative, silence], dim=1)
        return {"agents": _per_environment(parts)}

    def reward(self) -> dict[str, Reals]:
        """(B, N), on the device."""
        distances, landmarks = self.world.distances, self._agents
        covered = -distances[:, :landmarks].amin(0).sum(0)
        touched = (distances[:, landmarks:] < self.world.reach[:, landmarks:]).sum(1)
        return {"agents": _per_environment(covered * (1.0 - self._local) - touched * self._local)}

    def board(self, index: int) -> dict[str, Any]:
        """The picture of one world."""
        worlds = self.world
        host = World(worlds.bodies, self.count)
        host.positions[:], host.velocities[:] = (
            worlds.positions.cpu().numpy(),
            worlds.velocities.cpu().numpy(),
        )
        self.world = host  # type: ignore[assignment]
        try:
            return super().board(index)
        finally:
            self.world = worlds

    def episode_state(self) -> Arrays | None:
        """Positions, velocities and counters."""
        counters = np.array([self._steps, self._seed, self._episode], dtype=np.int64)
        state = {"positions": self.world.positions, "velocities": self.world.velocities}
        arrays = {name: part.cpu().numpy().copy() for name, part in state.items()}
        return {"counters": counters, "numbers": self._numbers, **arrays}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        """Continue from stored arrays; returns the view of the restored step."""
        self._steps, self._seed, self._episode = arrays["counters"].tolist()
        self._numbers = arrays["numbers"].copy()
        self.world.positions, self.world.velocities = (
            torch.from_numpy(arrays[name].copy()).to(self.device) for name in ("positions", "velocities")
        )
        self.world.update_relative()
        return View(self.observe())

    def _chosen(self, actions: Mapping[str, Actions]) -> Any:
        return torch.as_tensor(actions["agents"], device=self.device)

    def _controls(self, actions: Any) -> Any:
        """The agents' forces (n, 2, B). Actions are not checked, because that would wait for the device."""
        if self._continuous:
            forces = actions.double().clamp(0.0, 1.0)
            across, up = (forces[..., 2] - forces[..., 1], forces[..., 4] - forces[..., 3])
            return torch.stack([across, up]).permute(2, 0, 1)
        return self._moves[:, actions.long()].permute(2, 0, 1)


def _per_environment(values: Tensor) -> Any:
    """(..., B) -> (B, ...) in float32."""
    return values.movedim(-1, 0).float().contiguous()

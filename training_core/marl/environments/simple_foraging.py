"""simple_foraging: agents on a grid gather food for the team.

MARLKit's document specifies an observation of size 6, 5 actions (stay, up, down, left, right) and a shared reward of
collect bonus, step penalty and completion bonus. The rest is defined here. Agents and food start on different
squares; agents may share a square later, and stay in place at the edge of the grid. An agent on a piece of food
gathers it, once. An agent observes [row, column, rows and columns to the nearest food (down and right are positive;
the first piece if several are equally near), each over grid_size - 1, food left over num_food, step / max_cycles].
Reward of the team per step: collect_reward per piece, less step_penalty, and completion_reward with the last piece,
which ends the episode; every agent gets an equal share.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from training_core.marl.environments.base import Actions, Choices, Flags, Reals, RoleSpec, Spec, View
from training_core.marl.environments.config import SimpleForaging
from training_core.marl.environments.episodes import draws
from training_core.marl.environments.games import Integers

MOVES = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])
"""[rows, columns] of each action."""
MOVE_NAMES = ("stay", "up", "down", "left", "right")


class ForagingGame:
    """The rules. Rows count from the top, columns from the left, from 0."""

    last_step = "truncated"

    def __init__(self, section: SimpleForaging, count: int) -> None:
        self._section, self._count = section, count
        names = tuple(f"agent_{number}" for number in range(section.num_agents))
        self.spec = Spec(
            {"agents": RoleSpec(names, 6, Choices(len(MOVES), MOVE_NAMES))}, max_steps=section.max_cycles
        )
        self._agents = np.zeros((count, section.num_agents, 2), dtype=np.int64)
        self._food = np.zeros((count, section.num_food, 2), dtype=np.int64)
        self._left = np.zeros((count, section.num_food), dtype=bool)

    def begin(self, rows: Integers, seeds: Integers) -> None:
        size, agents = self._section.grid_size, self._section.num_agents
        order = np.argsort(draws(seeds, -1, size * size), axis=1, kind="stable")
        squares = np.stack(np.divmod(order, size), axis=-1)
        self._agents[rows] = squares[:, :agents]
        self._food[rows] = squares[:, agents : agents + self._section.num_food]
        self._left[rows] = True

    def play(self, actions: Mapping[str, Actions], steps: Integers) -> tuple[dict[str, Reals], Flags]:
        section = self._section
        moves = MOVES[np.asarray(actions["agents"], dtype=np.int64)]
        self._agents = np.clip(self._agents + moves, 0, section.grid_size - 1)
        stood_upon = (self._agents[:, :, None] == self._food[:, None]).all(axis=-1).any(axis=1)
        gathered = (stood_upon & self._left).sum(axis=1)
        self._left &= ~stood_upon
        complete: Flags = np.logical_not(self._left.any(axis=1))
        team = gathered * section.collect_reward - section.step_penalty + complete * section.completion_reward
        shares = np.repeat((team / section.num_agents)[:, None], section.num_agents, axis=1).astype(
            np.float32
        )
        return {"agents": shares}, complete

    def view(self, steps: Integers) -> View:
        section = self._section
        seen = np.empty((self._count, section.num_agents, 6), dtype=np.float32)
        seen[:, :, :2] = self._agents / (section.grid_size - 1)
        seen[:, :, 2:4] = self._nearest() / (section.grid_size - 1)
        seen[:, :, 4] = (self._left.sum(axis=1) / section.num_food)[:, None]
        seen[:, :, 5] = (steps / section.max_cycles)[:, None]
        return View({"agents": seen})

    def board(self, row: int) -> dict[str, Any] | None:
        cells = [
            (int(r), int(c), "goal")
            for (r, c), there in zip(self._food[row], self._left[row], strict=True)
            if there
        ]
        names = self.spec.roles["agents"].agents
        cells += [(int(r), int(c), name) for name, (r, c) in zip(names, self._agents[row], strict=True)]
        size = self._section.grid_size
        return {"kind": "grid", "rows": size, "columns": size, "cells": cells}

    def _nearest(self) -> Integers:
        """(B, n, 2): rows and columns from each agent to the food nearest to it; zeros if none is left."""
        way = self._food[:, None] - self._agents[:, :, None]
        far = 2 * self._section.grid_size
        distance = np.where(self._left[:, None], np.abs(way).sum(axis=-1), far)
        nearest = np.take_along_axis(way, distance.argmin(axis=-1)[..., None, None], axis=2)[:, :, 0]
        some: Flags = np.asarray(self._left.any(axis=1))
        return np.where(some[:, None, None], nearest, 0)

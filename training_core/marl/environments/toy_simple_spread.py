"""toy_simple_spread: N agents each name one of N slots without observing each other. MARLKit's toy, as documented
there.

Reward of the team per step: (different slots named) x coverage_reward - (agents beyond the first on a slot) x
collision_penalty, of which every agent gets an equal share. Observation: [step / max_cycles, agent / (N - 1)]. With 5
agents and 25 steps, random choices name 5 (1 - (4/5)^5) = 3.36 slots with a return of 25 (2 x 3.36 - 5) = 43.1 on
average; the maximum is 125.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from training_core.marl.environments.base import Actions, Choices, Flags, Reals, RoleSpec, Spec, View
from training_core.marl.environments.config import ToySimpleSpread
from training_core.marl.environments.games import Integers


class ToySpreadGame:
    """The rules. The end is part of the game: agents observe the remaining steps."""

    last_step = "terminated"

    def __init__(self, section: ToySimpleSpread, count: int) -> None:
        self._section, self._count = section, count
        agents = section.num_agents
        slots = Choices(agents, tuple(f"slot {number}" for number in range(agents)))
        names = tuple(f"agent_{number}" for number in range(agents))
        self.spec = Spec({"agents": RoleSpec(names, 2, slots)}, max_steps=section.max_cycles)
        self._named = np.full((count, agents), -1)
        self._identity = (np.arange(agents) / max(agents - 1, 1)).astype(np.float32)

    def begin(self, rows: Integers, seeds: Integers) -> None:
        self._named[rows] = -1

    def play(self, actions: Mapping[str, Actions], steps: Integers) -> tuple[dict[str, Reals], Flags]:
        self._named = np.array(actions["agents"], dtype=np.int64)
        agents = self._section.num_agents
        unique = (self._named[:, :, None] == np.arange(agents)).any(axis=1).sum(axis=1)
        collisions = agents - unique
        team = unique * self._section.coverage_reward - collisions * self._section.collision_penalty
        shares = np.repeat((team / agents)[:, None], agents, axis=1).astype(np.float32)
        return {"agents": shares}, np.zeros(self._count, dtype=bool)

    def view(self, steps: Integers) -> View:
        seen = np.empty((self._count, self._section.num_agents, 2), dtype=np.float32)
        seen[:, :, 0] = (steps / self._section.max_cycles)[:, None]
        seen[:, :, 1] = self._identity
        return View({"agents": seen})

    def board(self, row: int) -> dict[str, Any] | None:
        """Slots as columns, agents in the rows above their last choice."""
        agents = self._section.num_agents
        cells = [(agents, slot, "goal") for slot in range(agents)]
        names = self.spec.roles["agents"].agents
        cells += [
            (agent, int(slot), names[agent]) for agent, slot in enumerate(self._named[row]) if slot >= 0
        ]
        return {"kind": "grid", "rows": agents + 1, "columns": agents, "cells": cells}

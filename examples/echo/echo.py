"""echo: an agent sees a number, one-hot, and chooses one. A right choice has reward 1. Each step has new numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from examples.echo.config import Echo
from training_core.marl.environments.base import Actions, Choices, Flags, Reals, RoleSpec, Spec, View
from training_core.marl.environments.episodes import draws
from training_core.marl.environments.games import Integers


class EchoGame:
    """n agents, C choices. The end is part of the game."""

    last_step = "terminated"

    def __init__(self, section: Echo, count: int) -> None:
        agents = tuple(f"agent_{number}" for number in range(section.num_agents))
        role = RoleSpec(agents, section.num_choices, Choices(section.num_choices))
        self.spec = Spec({"agents": role}, max_steps=section.max_cycles)
        self._choices = section.num_choices
        self._seeds = np.zeros(count, dtype=np.int64)
        self._shown = np.zeros((count, section.num_agents), dtype=np.int64)

    def begin(self, rows: Integers, seeds: Integers) -> None:
        self._seeds[rows] = seeds

    def play(self, actions: Mapping[str, Actions], steps: Integers) -> tuple[dict[str, Reals], Flags]:
        right = actions["agents"] == self._shown
        return {"agents": right.astype(np.float32)}, np.zeros(len(steps), dtype=bool)

    def view(self, steps: Integers) -> View:
        """(B, n, C)."""
        numbers = draws(self._seeds, steps, self._shown.shape[1])
        self._shown = (numbers * self._choices).astype(np.int64)
        return View({"agents": np.eye(self._choices, dtype=np.float32)[self._shown]})

    def board(self, row: int) -> dict[str, Any]:
        """Each agent's number as text."""
        agents = self.spec.roles["agents"].agents
        numbers = zip(agents, self._shown[row].tolist(), strict=True)
        return {
            "kind": "lines",
            "lines": [{"label": agent, "text": str(number)} for agent, number in numbers],
        }

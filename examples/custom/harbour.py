"""A custom environment: a pilot brings ships to their berths. See docs/train/custom.md."""

import copy
from random import Random
from typing import Any, ClassVar, Self

from training_core.llm.environments.base import Split, StepResult

MOVES = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}
SIZE = 5
BERTH = (2, 2)


class Harbour:
    """One ship after the other. The pilot sees `goal 2 east 1 north` and answers with compass words.

    The words are those of the planner in plan_path, so that its models understand them.
    """

    roles: ClassVar[tuple[str, ...]] = ("pilot",)

    def __init__(self, seed: int, ships: int = 3) -> None:
        self.seed, self.ships = seed, ships

    def reset(self, task: int, split: Split) -> None:
        """Place the ships of a task: the same for the same (seed, split, number)."""
        random = Random(f"{self.seed} {split} {task}")
        cells = [(row, column) for row in range(SIZE) for column in range(SIZE) if (row, column) != BERTH]
        self.task_id, self.done, self.success = f"{split}-{task}", False, False
        self.left = tuple(random.sample(cells, self.ships))
        self.moored = 0

    def observe(self, role: str) -> str:
        """Distance of the berth from the first ship, by axis."""
        down, right = BERTH[0] - self.left[0][0], BERTH[1] - self.left[0][1]
        axes = ((right, "east", "west"), (down, "south", "north"))
        parts = [f"{abs(steps)} {more if steps > 0 else less}" for steps, more, less in axes if steps]
        return f"goal {' '.join(parts)}"

    def act(self, role: str, answer: str) -> StepResult:
        """Move the first ship, then continue with the next one. The team earns a share for each ship at the berth."""
        row, column = self.left[0]
        for word in answer.split()[:4]:
            down, right = MOVES.get(word, (0, 0))
            row, column = row + down, column + right
        arrived = (row, column) == BERTH
        self.moored += arrived
        self.left = self.left[1:]
        self.done = not self.left
        self.success = self.done and self.moored == self.ships
        info = "at the berth" if arrived else "not at the berth"
        return StepResult(0.0, arrived / self.ships, self.done, self.success, info)

    def copy(self) -> Self:
        """An independent copy: attributes are replaced, never changed in place."""
        return copy.copy(self)

    def board(self) -> dict[str, Any]:
        """The berth, and the ships that are still at sea."""
        cells: list[tuple[int, int, str]] = [(*BERTH, "goal"), *((*ship, "ship") for ship in self.left)]
        return {"kind": "grid", "rows": SIZE, "columns": SIZE, "cells": cells}

    @property
    def title(self) -> str:
        """The task in a few words."""
        return f"{self.ships} ships"

    @property
    def outcome(self) -> str:
        """The result, or the current state."""
        return f"{self.moored} of {self.ships} ships at the berth"

"""Eight queens for two: the planner sees all queens and picks one; the executor sees the attackers of the squares of
that row, and moves its queen.

Based on the eight queens of PettingLLMs (arXiv 2510.11062), as a repair task: each row has one queen at the start,
and queens are moved within their rows until none attacks another. Tasks are therefore different initial boards, not
the single empty board. The executor cannot see which queen to move, and the planner cannot move. Rows are named r1,
r2 … from the top, columns c1, c2 … from the left; a position is the column of each row's queen, from 0.
"""

from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.eight_queens.config import EightQueens
from training_core.llm.environments.splits import Tasks, held_out
from training_core.llm.environments.task_environment import PuzzleEnvironment

Columns = tuple[int, ...]


@dataclass(frozen=True)
class Position:
    """A task instance."""

    columns: Columns

    @property
    def identity(self) -> str:
        """The whole instance."""
        return repr(self.columns)


def attackers(columns: Columns, row: int, column: int) -> int:
    """Number of queens of other rows that attack a square."""
    return sum(
        other == column or abs(other - column) == abs(other_row - row)
        for other_row, other in enumerate(columns)
        if other_row != row
    )


def attacking_pairs(columns: Columns) -> int:
    """Pairs of queens that attack each other."""
    return sum(attackers(columns, row, column) for row, column in enumerate(columns)) // 2


def draw_position(config: EightQueens, random: Random, split: Split) -> Position:
    """A position of a split in which at least two pairs attack each other."""
    while True:
        position = Position(tuple(random.randrange(config.size) for _ in range(config.size)))
        if attacking_pairs(position.columns) >= 2 and held_out(position) == (split == "eval"):
            return position


EIGHT_QUEENS_TASKS = Tasks(draw_position)


class EightQueensEnvironment(PuzzleEnvironment[EightQueens, Position]):
    """One board. The planner picks a row (`r3`), then the executor names a column for its queen (`c2`)."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")

    def draw(self, task: int, split: Split) -> Position:
        """The instance of a task number."""
        return EIGHT_QUEENS_TASKS.instance(self.config, self.seed, task, split)

    def begin(self, position: Position) -> None:
        """Start on a given board."""
        self.position = position
        self.columns = position.columns
        self.row: int | None = None
        self.last: int | None = None
        """The row that was moved last: without it, greedy play alternates between two queens indefinitely."""

    def observe(self, role: str) -> str:
        """Planner: each queen's column and attackers, and the row moved last. Executor: attackers of each square of a row."""
        if role == "planner":
            queens = " ; ".join(
                f"r{row + 1} c{column + 1} {attackers(self.columns, row, column)}"
                for row, column in enumerate(self.columns)
            )
            return f"{queens} ; last {'none' if self.last is None else f'r{self.last + 1}'}"
        if self.row is None:
            return "no row"
        squares = " ".join(
            f"c{column + 1} {attackers(self.columns, self.row, column)}"
            for column in range(len(self.columns))
        )
        return f"{squares} ; now c{self.columns[self.row] + 1}"

    def act(self, role: str, answer: str) -> StepResult:
        """Pick a row, or move its queen."""
        word = after_thought(answer).strip()
        return self._pick(word) if role == "planner" else self._move(word)

    def _pick(self, word: str) -> StepResult:
        """Score a row by its best move."""
        self.row = self._number(word, "r")
        if self.row is None:
            return StepResult(self.config.refused_reward, 0.0, False, False, "no row")
        row, now = self.row, self.columns[self.row]
        others = [column for column in range(len(self.columns)) if column != now]
        best = min(attackers(self.columns, row, column) for column in others)
        left = attacking_pairs(self.columns) - attackers(self.columns, row, now) + best
        return StepResult(self._shaped(left), 0.0, False, False, f"picks {word}")

    def _move(self, word: str) -> StepResult:
        self.turns += 1
        row, self.row = self.row, None
        column = self._number(word, "c")
        if row is None or column is None or column == self.columns[row]:
            return self._end_of_turn(self.config.refused_reward, "moves nothing")
        after = (*self.columns[:row], column, *self.columns[row + 1 :])
        local = self.config.step_reward + self._shaped(attacking_pairs(after))
        self.columns, self.last = after, row
        return self._end_of_turn(local, f"moves the queen of r{row + 1} to {word}")

    def _end_of_turn(self, local: float, info: str) -> StepResult:
        return self.end_of_turn(local, info, solved=not attacking_pairs(self.columns))

    def _shaped(self, left: int) -> float:
        """Shaping reward for going from the current pairs to `left`."""
        return self.shaped(attacking_pairs(self.columns), left, attacking_pairs(self.position.columns))

    def _number(self, word: str, axis: str) -> int | None:
        """The row or column that a word names, from 0."""
        names = {f"{axis}{number + 1}": number for number in range(len(self.columns))}
        return names.get(word)

    def board(self) -> dict[str, Any]:
        """The queens; attacked ones are marked."""
        cells = [
            [row, column, "attacked" if attackers(self.columns, row, column) else "queen"]
            for row, column in enumerate(self.columns)
        ]
        return {"kind": "grid", "rows": len(self.columns), "columns": len(self.columns), "cells": cells}

    @property
    def title(self) -> str:
        """Size and pairs."""
        return f"{len(self.columns)} queens, {attacking_pairs(self.position.columns)} pairs attack"

    @property
    def outcome(self) -> str:
        """The outcome."""
        pairs = attacking_pairs(self.columns)
        return self.in_turns("solved", f"{pairs} pair{'s' * (pairs != 1)} attack")


def eight_queens_vocabulary(config: EightQueens) -> tuple[str, ...]:
    """Every word in observations and answers, in a fixed order."""
    numbers = range(1, config.size + 1)
    places = [f"{axis}{number}" for axis in "rc" for number in numbers]
    counts = [str(number) for number in range(config.size)]
    return (*places, *counts, ";", "last", "now", "none", "no", "row")

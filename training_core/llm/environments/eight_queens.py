"""Eight queens for two: the planner sees all queens and picks one; the executor sees the attackers of the squares of
that row, and moves its queen.

Based on the eight queens of PettingLLMs (arXiv 2510.11062), as a repair task: each row has one queen at the start,
and queens are moved within their rows until none attacks another. Tasks are therefore different initial boards, not
the single empty board. The executor cannot see which queen to move, and the planner cannot move. Rows are named r1,
r2 … from the top, columns c1, c2 … from the left; a position is the column of each row's queen, from 0.

Demonstrations for the tiny model teach the language and part of the task. The planner picks an attacked queen, not the one
moved last; half of the time the one with the best move. The executor mostly picks a square with the fewest attackers,
otherwise any. Consistent play is learnt in the run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import Field

from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult, WarmStart
from training_core.llm.environments.task_environment import (
    PuzzleConfig,
    PuzzleEnvironment,
    Tasks,
    held_out,
    keyed_random,
)


class EightQueens(PuzzleConfig):
    """Queens, one in each row, that attack each other: the planner picks a queen; the executor, which sees that row, moves it."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    task_fields: ClassVar[tuple[str, ...]] = ("size",)
    type: Literal["eight_queens"] = "eight_queens"
    """Queens to be placed so that none attacks another."""
    size: int = Field(5, ge=4, le=16)
    """Rows, columns and queens; 8 is the classic."""


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
    tasks = EIGHT_QUEENS_TASKS

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
        left = self.left - attackers(self.columns, row, now) + best
        return StepResult(self.shaped(left), 0.0, False, False, f"picks {word}")

    def _move(self, word: str) -> StepResult:
        self.turns += 1
        row, self.row = self.row, None
        column = self._number(word, "c")
        if row is None or column is None or column == self.columns[row]:
            return self.end_of_turn(self.config.refused_reward, "moves nothing")
        after = (*self.columns[:row], column, *self.columns[row + 1 :])
        local = self.config.step_reward + self.shaped(attacking_pairs(after))
        self.columns, self.last = after, row
        return self.end_of_turn(local, f"moves the queen of r{row + 1} to {word}")

    @property
    def left(self) -> int:
        """Pairs that attack each other."""
        return attacking_pairs(self.columns)

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
        return f"{len(self.columns)} queens, {self.whole} pairs attack"

    @property
    def outcome(self) -> str:
        """The outcome."""
        return self.in_turns("solved", f"{self.left} pair{'s' * (self.left != 1)} attack")


def eight_queens_vocabulary(config: EightQueens) -> tuple[str, ...]:
    """Every word in observations and answers, in a fixed order."""
    numbers = range(1, config.size + 1)
    places = [f"{axis}{number}" for axis in "rc" for number in numbers]
    counts = [str(number) for number in range(config.size)]
    return (*places, *counts, ";", "last", "now", "none", "no", "row")


NOISE = 0.1
"""Probability that a demonstrated word is replaced by a random one of its kind."""
WELL_PICKED = 0.5
"""Share of the demonstrated picks of a row with the best move."""
WELL_MOVED = 0.7
"""Share of the demonstrated moves to a square with the fewest attackers."""
SETTLED = 0.5
"""Share of boards after some good moves; initial boards alone would not cover late states."""


def eight_queens_demonstrations(config: EightQueens, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = keyed_random(seed, 2)
    environment = EightQueensEnvironment(config, seed)
    while True:
        environment.start(draw_position(config, random, "train"), "demonstration")
        environment.last = random.choice([None, *range(config.size)])
        if random.random() < SETTLED:
            _settle(environment, random)
        row = _row(environment, random)
        yield environment.observe("planner"), _noisy("r", row, config.size, random)
        environment.row = row
        yield (
            environment.observe("executor"),
            _noisy("c", _column(environment, row, random), config.size, random),
        )


def _settle(environment: EightQueensEnvironment, random: Random) -> None:
    """Move a few queens to the squares with the fewest attackers."""
    for _ in range(random.randint(1, environment.config.size)):
        row = random.randrange(environment.config.size)
        columns = environment.columns
        best = min(range(len(columns)), key=lambda column: attackers(columns, row, column))
        environment.columns = (*columns[:row], best, *columns[row + 1 :])


def _row(environment: EightQueensEnvironment, random: Random) -> int:
    """A row whose queen is attacked, not the one moved last."""
    columns = environment.columns
    rows = [row for row in range(len(columns)) if row != environment.last]
    attacked = [row for row in rows if attackers(columns, row, columns[row])]
    worth = {row: attackers(columns, row, columns[row]) - _fewest(columns, row) for row in attacked}
    best = [row for row in attacked if worth[row] == max(worth.values())]
    return random.choice((best if random.random() < WELL_PICKED else attacked) or rows)


def _fewest(columns: tuple[int, ...], row: int) -> int:
    """Attackers of the best other square of a row."""
    return min(attackers(columns, row, column) for column in range(len(columns)) if column != columns[row])


def _column(environment: EightQueensEnvironment, row: int, random: Random) -> int:
    columns = environment.columns
    others = [column for column in range(len(columns)) if column != columns[row]]
    best = [column for column in others if attackers(columns, row, column) == _fewest(columns, row)]
    return random.choice(best if random.random() < WELL_MOVED else others)


def _noisy(axis: str, number: int, size: int, random: Random) -> str:
    return f"{axis}{(random.randrange(size) if random.random() < NOISE else number) + 1}"


WARM_START = WarmStart(eight_queens_vocabulary, eight_queens_demonstrations, NOISE)

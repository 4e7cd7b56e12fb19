"""Sudoku for two: the planner sees all digits and names a square; the executor sees only that square's row, column
and box, and writes a digit.

Based on the Sudoku of PettingLLMs (arXiv 2510.11062), with the information split between the roles: where to write
depends on the whole grid (which square has only one legal digit), what to write on a few digits. The executor cannot
see whether a square is a good choice, and the planner cannot write. A digit that breaks a rule is refused; a wrong
digit that breaks none is written and can be overwritten. Squares are named r1c1 to r9c9, from the top left; an empty
one is shown by its name.
"""

from typing import Any, ClassVar

from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.sudoku.config import Sudoku
from training_core.llm.environments.sudoku.puzzles import BOXES, SUDOKU_TASKS, Puzzle, legal_digits, lines
from training_core.llm.environments.task_environment import PuzzleEnvironment

EMPTY = "empty"
LINES = ("row", "column", "box")


class SudokuEnvironment(PuzzleEnvironment[Sudoku, Puzzle]):
    """One Sudoku. The planner names a square (`r2c3`), then the executor writes (`4`)."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")

    def draw(self, task: int, split: Split) -> Puzzle:
        """The instance of a task number."""
        return SUDOKU_TASKS.instance(self.config, self.seed, task, split)

    def begin(self, puzzle: Puzzle) -> None:
        """Start on a given puzzle."""
        self.puzzle = puzzle
        self.digits = puzzle.given
        self.square: int | None = None
        self.refused: tuple[tuple[int, int], ...] = ()
        """(square, digit) that were refused since the last digit was written: greedy play would repeat them indefinitely."""

    def observe(self, role: str) -> str:
        """Planner: the grid, row by row, and where digits were refused. Executor: the digits in the lines and box of the named square."""
        if role == "planner":
            size = self.puzzle.size
            shown = [str(digit or square_name(square, size)) for square, digit in enumerate(self.digits)]
            rows = [" ".join(shown[start : start + size]) for start in range(0, size * size, size)]
            tried = " ".join(dict.fromkeys(square_name(square, size) for square, _ in self.refused))
            return f"{' ; '.join(rows)} ; refused {tried or 'none'}"
        if self.square is None:
            return "no square"
        return self._around(self.square)

    def _around(self, square: int) -> str:
        parts = []
        for name, line in zip(LINES, lines(self.puzzle.size)[square], strict=True):
            seen = sorted(self.digits[other] for other in line if other != square and self.digits[other])
            parts.append(f"{name} {_digits(seen)}")
        refused = sorted(digit for cell, digit in self.refused if cell == square)
        return f"{' ; '.join(parts)} ; now {self.digits[square] or EMPTY} ; refused {_digits(refused)}"

    def act(self, role: str, answer: str) -> StepResult:
        """Process a square, or write a digit."""
        words = after_thought(answer).split()
        return self._point(words) if role == "planner" else self._write(words)

    def _point(self, words: list[str]) -> StepResult:
        """Score a square by the expected value of a random legal digit: at most one of them is correct."""
        self.square = self._square(words)
        if self.square is None:
            return StepResult(self.config.refused_reward, 0.0, False, False, "no square")
        name = square_name(self.square, self.puzzle.size)
        if self.puzzle.given[self.square]:
            self.square = None
            return StepResult(self.config.refused_reward, 0.0, False, False, f"{name} is given")
        legal = legal_digits(self.digits, self.square, self.puzzle.size)
        right = self.puzzle.solution[self.square]
        gain = (right in legal) / max(len(legal), 1) - (self.digits[self.square] == right)
        local = self._shaped(self._left(self.digits) - gain)
        return StepResult(local, 0.0, False, False, f"points to {name}")

    def _write(self, words: list[str]) -> StepResult:
        self.turns += 1
        square, self.square = self.square, None
        digit = int(words[0]) if len(words) == 1 and words[0] in self._sayable_digits() else 0
        if square is None or not digit:
            return self._end_of_turn(self.config.refused_reward, "writes nothing")
        if digit not in legal_digits(self.digits, square, self.puzzle.size):
            self.refused = (*self.refused, (square, digit))
            return self._end_of_turn(self.config.refused_reward, f"{digit} is refused")
        after = (*self.digits[:square], digit, *self.digits[square + 1 :])
        local = self.config.step_reward + self._shaped(self._left(after))
        self.digits, self.refused = after, ()
        return self._end_of_turn(local, f"writes {digit} in {square_name(square, self.puzzle.size)}")

    def _end_of_turn(self, local: float, info: str) -> StepResult:
        return self.end_of_turn(local, info, solved=self.digits == self.puzzle.solution)

    def _shaped(self, left: float) -> float:
        """Shaping reward for going from the current digits to `left` incorrect squares."""
        return self.shaped(self._left(self.digits), left, self.puzzle.holes)

    def _left(self, digits: tuple[int, ...]) -> int:
        return sum(one != other for one, other in zip(digits, self.puzzle.solution, strict=True))

    def _square(self, words: list[str]) -> int | None:
        size = self.puzzle.size
        names = {square_name(square, size): square for square in range(size * size)}
        return names.get(" ".join(words))

    def _sayable_digits(self) -> set[str]:
        return {str(digit) for digit in range(1, self.puzzle.size + 1)}

    def board(self) -> dict[str, Any]:
        """The digits: given, filled, or wrong."""
        size = self.puzzle.size
        cells = []
        for square, digit in enumerate(self.digits):
            if digit:
                wrong = digit != self.puzzle.solution[square]
                state = "given" if self.puzzle.given[square] else "wrong" if wrong else "filled"
                cells.append([square // size, square % size, digit, state])
        return {"kind": "sudoku", "size": size, "box": list(BOXES[size]), "cells": cells}

    @property
    def title(self) -> str:
        """Size and holes."""
        return f"Sudoku {self.puzzle.size}×{self.puzzle.size}, {self.puzzle.holes} holes"

    @property
    def outcome(self) -> str:
        """The outcome."""
        return self.in_turns("solved", f"{self._left(self.digits)} squares open")


def square_name(square: int, size: int) -> str:
    """`r2c3`, from 1."""
    return f"r{square // size + 1}c{square % size + 1}"


def _digits(digits: list[int]) -> str:
    return " ".join(str(digit) for digit in digits) or "none"


def sudoku_vocabulary(config: Sudoku) -> tuple[str, ...]:
    """Every word in observations and answers, in a fixed order."""
    numbers = [str(number) for number in range(1, config.size + 1)]
    names = [square_name(square, config.size) for square in range(config.size**2)]
    return (*numbers, *names, *LINES, EMPTY, ";", "now", "refused", "none", "no", "square")

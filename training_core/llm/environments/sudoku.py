"""Sudoku for two: the planner sees all digits and names a square; the executor sees only that square's row, column
and box, and writes a digit.

Based on the Sudoku of PettingLLMs (arXiv 2510.11062), with the information split between the roles: where to write
depends on the whole grid (which square has only one legal digit), what to write on a few digits. The executor cannot
see whether a square is a good choice, and the planner cannot write. A digit that breaks a rule is refused; a wrong
digit that breaks none is written and can be overwritten. Squares are named r1c1 to r9c9, from the top left; an empty
one is shown by its name. Squares are numbered row by row, from 0; the digit of an empty one is 0.

Demonstrations for the tiny model teach the language and part of the task. The planner names any empty square. The
executor writes a digit that is not in the row, ignoring column and box. Some words are also replaced at random. Choosing a
square with one legal digit, and checking column and box, is learnt in the run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import cross_field
from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult, WarmStart
from training_core.llm.environments.task_environment import (
    PuzzleConfig,
    PuzzleEnvironment,
    Tasks,
    held_out,
    keyed_random,
)

MOST_HOLES = {4: 11, 6: 24, 9: 54}
"""By size: with more holes, digging a puzzle with one solution fails too often."""


class SudokuGrid(PuzzleConfig):
    """Settings of the puzzles, independent of the roles."""

    task_fields: ClassVar[tuple[str, ...]] = ("size", "holes")
    type: str
    """Which role observes what, and which role writes."""
    size: Literal[4, 6, 9] = 4
    """Digits, rows and columns; boxes are 2×2, 2×3 and 3×3."""
    holes: int = Field(5, ge=1, le=54)
    """Squares to fill in; the solution is unique. At most 11, 24 and 54 for sizes 4, 6 and 9."""

    @cross_field
    def _one_solution_is_possible(self) -> Self:
        if self.holes > MOST_HOLES[self.size]:
            raise ValueError(f"holes: at most {MOST_HOLES[self.size]} for size {self.size}")
        return self


class Sudoku(SudokuGrid):
    """Sudoku: the planner names a square; the executor, which sees only the lines and box of that square, writes the digit."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    type: Literal["sudoku"] = "sudoku"
    """Sudoku of 4, 6 or 9 digits."""


class SudokuSingle(SudokuGrid):
    """The same Sudoku by one agent that sees the grid and writes (single-agent control)."""

    roles: ClassVar[tuple[str, ...]] = ("solver",)
    type: Literal["sudoku_single"] = "sudoku_single"
    """Sudoku of 4, 6 or 9 digits by a single agent."""


BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}
"""Rows and columns of a box, by size."""


@dataclass(frozen=True)
class Puzzle:
    """A task instance."""

    size: int
    given: tuple[int, ...]
    solution: tuple[int, ...]

    @property
    def identity(self) -> str:
        """The solution: puzzles with the same solution are in the same split."""
        return repr(self.solution)

    @property
    def holes(self) -> int:
        """Number of empty squares at the start."""
        return self.given.count(0)


@lru_cache
def lines(size: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...]:
    """By square: the squares of its row, column and box, including itself."""
    high, wide = BOXES[size]
    squares = [(number // size, number % size) for number in range(size * size)]

    def same(square: int, name: str) -> tuple[int, ...]:
        return tuple(other for other in range(size * size) if areas[name][other] == areas[name][square])

    areas = {
        "row": [row for row, _ in squares],
        "column": [column for _, column in squares],
        "box": [(row // high) * size + column // wide for row, column in squares],
    }
    return tuple(
        (same(square, "row"), same(square, "column"), same(square, "box")) for square in range(size * size)
    )


@lru_cache
def peers(size: int) -> tuple[tuple[int, ...], ...]:
    """By square: the other squares that must have different digits."""
    return tuple(
        tuple(sorted({other for line in areas for other in line} - {square}))
        for square, areas in enumerate(lines(size))
    )


def legal_digits(digits: Sequence[int], square: int, size: int) -> list[int]:
    """Digits that break no rule in this square, ignoring its current digit."""
    taken = {digits[other] for other in peers(size)[square]}
    return [digit for digit in range(1, size + 1) if digit not in taken]


def solutions(digits: Sequence[int], size: int, random: Random | None = None) -> Iterator[tuple[int, ...]]:
    """All solutions of the empty squares, filling the square with the fewest legal digits first."""
    empty = [square for square, digit in enumerate(digits) if not digit]
    if not empty:
        yield tuple(digits)
        return
    choices = {square: legal_digits(digits, square, size) for square in empty}
    square = min(empty, key=lambda candidate: len(choices[candidate]))
    if random:
        random.shuffle(choices[square])
    for digit in choices[square]:
        yield from solutions([*digits[:square], digit, *digits[square + 1 :]], size, random)


def draw_puzzle(config: SudokuGrid, random: Random, split: Split) -> Puzzle:
    """A puzzle of a split with the configured holes and a unique solution."""
    while True:
        solution = next(solutions([0] * config.size**2, config.size, random))
        puzzle = Puzzle(config.size, solution, solution)
        if held_out(puzzle) != (split == "eval"):
            continue
        digits = _dig(solution, config, random)
        if digits.count(0) == config.holes:
            return Puzzle(config.size, tuple(digits), solution)


def _dig(solution: tuple[int, ...], config: SudokuGrid, random: Random) -> list[int]:
    """Remove digits in random order while the solution stays unique; it may run out of squares."""
    digits = list(solution)
    for square in random.sample(range(len(digits)), len(digits)):
        if digits.count(0) == config.holes:
            break
        digits[square] = 0
        if _another_digit_works(digits, square, solution[square], config.size):
            digits[square] = solution[square]
    return digits


def _another_digit_works(digits: list[int], square: int, right: int, size: int) -> bool:
    """Whether a solution has another digit here, which is much faster than counting solutions."""
    for digit in legal_digits(digits, square, size):
        tried = [*digits[:square], digit, *digits[square + 1 :]]
        if digit != right and next(solutions(tried, size), None):
            return True
    return False


SUDOKU_TASKS = Tasks(draw_puzzle)


EMPTY = "empty"
LINES = ("row", "column", "box")


class SudokuEnvironment(PuzzleEnvironment[SudokuGrid, Puzzle]):
    """One Sudoku. The planner names a square (`r2c3`), then the executor writes (`4`)."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    tasks = SUDOKU_TASKS

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
            tried = " ".join(dict.fromkeys(square_name(square, size) for square, _ in self.refused))
            return f"{self._rows()} ; refused {tried or 'none'}"
        if self.square is None:
            return "no square"
        return self._around(self.square)

    def _rows(self) -> str:
        size = self.puzzle.size
        shown = [str(digit or square_name(square, size)) for square, digit in enumerate(self.digits)]
        return " ; ".join(" ".join(shown[start : start + size]) for start in range(0, size * size, size))

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
        local = self.shaped(self.left - gain)
        return StepResult(local, 0.0, False, False, f"points to {name}")

    def _write(self, words: list[str]) -> StepResult:
        self.turns += 1
        square, self.square = self.square, None
        digit = int(words[0]) if len(words) == 1 and words[0] in self._sayable_digits() else 0
        if square is None or not digit:
            return self.end_of_turn(self.config.refused_reward, "writes nothing")
        if digit not in legal_digits(self.digits, square, self.puzzle.size):
            self.refused = (*self.refused, (square, digit))
            return self.end_of_turn(self.config.refused_reward, f"{digit} is refused")
        after = (*self.digits[:square], digit, *self.digits[square + 1 :])
        local = self.config.step_reward + self.shaped(self._incorrect(after))
        self.digits, self.refused = after, ()
        return self.end_of_turn(local, f"writes {digit} in {square_name(square, self.puzzle.size)}")

    @property
    def left(self) -> int:
        """Incorrect squares."""
        return self._incorrect(self.digits)

    def _incorrect(self, digits: tuple[int, ...]) -> int:
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
        return self.in_turns("solved", f"{self.left} squares open")


class SudokuSingleEnvironment(SudokuEnvironment):
    """One agent, the solver, sees the grid, and names a square and its digit: `r2c3 4`."""

    roles: ClassVar[tuple[str, ...]] = ("solver",)

    def observe(self, role: str) -> str:
        """The grid, row by row, and which digits were refused where."""
        size = self.puzzle.size
        refused = " , ".join(f"{square_name(square, size)} {digit}" for square, digit in self.refused)
        return f"{self._rows()} ; refused {refused or 'none'}"

    def act(self, role: str, answer: str) -> StepResult:
        """Write a digit into a square that was empty at the start."""
        words = after_thought(answer).split()
        square = self._square(words[:1])
        self.square = None if square is None or self.puzzle.given[square] else square
        return self._write(words[1:])


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


NOISE = 0.1
"""Probability that a demonstrated word is replaced by a random one of its kind."""
STATES_PER_PUZZLE = 8
REFUSED = 0.25
"""Share of the states in which something was refused before."""


def sudoku_demonstrations(config: Sudoku, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = keyed_random(seed, 2)
    environment = SudokuEnvironment(config, seed)
    while True:
        puzzle = draw_puzzle(config, random, "train")
        for _ in range(STATES_PER_PUZZLE):
            environment.start(puzzle, "demonstration")
            empty = _random_state(environment, puzzle, random)
            square = random.choice(empty)
            yield environment.observe("planner"), _pointed(square, config.size, random)
            environment.square = square
            yield environment.observe("executor"), _written(environment, square, random)


def _random_state(environment: SudokuEnvironment, puzzle: Puzzle, random: Random) -> list[int]:
    """Fill some holes, most of them correctly; return the remaining squares."""
    empty = [square for square, digit in enumerate(puzzle.given) if not digit]
    random.shuffle(empty)
    digits = list(puzzle.given)
    for square in empty[: random.randrange(len(empty))]:
        legal = legal_digits(digits, square, puzzle.size)
        wrong = legal and random.random() < 0.1
        digits[square] = random.choice(legal) if wrong else puzzle.solution[square]
    environment.digits = tuple(digits)
    left = [square for square, digit in enumerate(digits) if not digit]
    if random.random() < REFUSED:
        square = random.choice(left)
        legal = legal_digits(digits, square, puzzle.size)
        illegal = [digit for digit in range(1, puzzle.size + 1) if digit not in legal]
        environment.refused = ((square, random.choice(illegal)),) if illegal else ()
    return left


def _pointed(square: int, size: int, random: Random) -> str:
    return square_name(random.randrange(size * size) if random.random() < NOISE else square, size)


def _written(environment: SudokuEnvironment, square: int, random: Random) -> str:
    size = environment.puzzle.size
    row = {environment.digits[other] for other in lines(size)[square][0]}
    fits = [digit for digit in range(1, size + 1) if digit not in row]
    return str(random.randint(1, size) if random.random() < NOISE else random.choice(fits))


WARM_START = WarmStart(sudoku_vocabulary, sudoku_demonstrations, NOISE)

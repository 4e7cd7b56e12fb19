"""Sudoku: rules, a solver, and puzzles with exactly one solution. Squares are numbered row by row, from 0; 0 is empty."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from training_core.llm.environments.base import Split
from training_core.llm.environments.splits import Tasks, held_out
from training_core.llm.environments.sudoku.config import Sudoku

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


def draw_puzzle(config: Sudoku, random: Random, split: Split) -> Puzzle:
    """A puzzle of a split with the configured holes and a unique solution."""
    while True:
        solution = next(solutions([0] * config.size**2, config.size, random))
        puzzle = Puzzle(config.size, solution, solution)
        if held_out(puzzle) != (split == "eval"):
            continue
        digits = _dig(solution, config, random)
        if digits.count(0) == config.holes:
            return Puzzle(config.size, tuple(digits), solution)


def _dig(solution: tuple[int, ...], config: Sudoku, random: Random) -> list[int]:
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

"""The config of Sudoku."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import cross_field
from training_core.llm.environments.puzzle_config import PuzzleConfig

MOST_HOLES = {4: 11, 6: 24, 9: 54}
"""By size: with more holes, digging a puzzle with one solution fails too often."""


class Sudoku(PuzzleConfig):
    """Sudoku: the planner names a square; the executor, which sees only the lines and box of that square, writes the digit."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    task_fields: ClassVar[tuple[str, ...]] = ("size", "holes")
    type: Literal["sudoku"] = "sudoku"
    """Sudoku of 4, 6 or 9 digits."""
    size: Literal[4, 6, 9] = 4
    """Digits, rows and columns; boxes are 2×2, 2×3 and 3×3."""
    holes: int = Field(5, ge=1, le=54)
    """Squares to fill in; the solution is unique. At most 11, 24 and 54 for sizes 4, 6 and 9."""

    @cross_field
    def _one_solution_is_possible(self) -> Self:
        if self.holes > MOST_HOLES[self.size]:
            raise ValueError(f"holes: at most {MOST_HOLES[self.size]} for size {self.size}")
        return self

"""The config of the queens puzzle."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.llm.environments.puzzle_config import PuzzleConfig


class EightQueens(PuzzleConfig):
    """Queens, one in each row, that attack each other: the planner picks a queen; the executor, which sees that row, moves it."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    task_fields: ClassVar[tuple[str, ...]] = ("size",)
    type: Literal["eight_queens"] = "eight_queens"
    """Queens to be placed so that none attacks another."""
    size: int = Field(5, ge=4, le=16)
    """Rows, columns and queens; 8 is the classic."""

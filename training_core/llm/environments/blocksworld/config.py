"""The config of Blocksworld."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.llm.environments.puzzle_config import PuzzleConfig


class Blocksworld(PuzzleConfig):
    """Blocks to be piled up: the planner, which sees the goal, names a block and its target; the executor, which sees
    the piles, moves blocks.
    """

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    task_fields: ClassVar[tuple[str, ...]] = ("blocks",)
    type: Literal["blocksworld"] = "blocksworld"
    """Blocks in piles on a table."""
    blocks: int = Field(4, ge=2, le=12)
    """Number of blocks."""

"""Puzzles for a planner and an executor."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from training_core.config.base import EnvironmentSection

MOST_HOLES = {4: 11, 6: 24, 9: 54}
"""By size: with more holes, digging a puzzle with one solution fails too often."""


class Sudoku(EnvironmentSection):
    """Sudoku: the planner names a square; the executor, which sees only the lines and box of that square, writes the digit."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    type: Literal["sudoku"] = "sudoku"
    """Sudoku of 4, 6 or 9 digits."""
    size: Literal[4, 6, 9] = 4
    """Digits, rows and columns; boxes are 2×2, 2×3 and 3×3."""
    holes: int = Field(5, ge=1, le=54)
    """Squares to fill in; the solution is unique. At most 11, 24 and 54 for sizes 4, 6 and 9."""
    max_turns: int = Field(8, ge=1, le=200)
    """Turns of the whole team before the episode ends without success; a turn writes at most one digit."""
    step_reward: float = -0.01
    """Local reward per digit written."""
    refused_reward: float = -0.10
    """Local reward for a digit that breaks a rule, a square that may not be changed, or an invalid answer."""
    goal_reward: float = 1.0
    """Team reward when the Sudoku is solved."""
    fail_reward: float = 0.0
    """Team reward when the turns run out (usually zero or negative)."""
    shaping: float = Field(1.0, ge=0.0)
    """Weight of the potential-based shaping on the share of holes that are filled correctly (local reward); 0 disables."""
    shaping_discount: float = Field(0.99, gt=0.0, le=1.0)
    """Discount inside the shaping term, gamma."""

    @model_validator(mode="after")
    def _one_solution_is_possible(self) -> Self:
        if self.holes > MOST_HOLES[self.size]:
            raise ValueError(f"holes: at most {MOST_HOLES[self.size]} for size {self.size}")
        return self


class Sokoban(EnvironmentSection):
    """Sokoban: the planner, which sees boxes and goals, names a direction to push; the executor walks around the box and pushes."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    type: Literal["sokoban"] = "sokoban"
    """Boxes to be pushed onto goals."""
    size: int = Field(6, ge=5, le=12)
    """Rows and columns of the grid, in cells, its border of walls included."""
    boxes: int = Field(1, ge=1, le=6)
    """Number of boxes and of goals."""
    wall_share: float = Field(0.06, ge=0.0, le=0.3)
    """Share of the cells inside the border that are walls; every level can be solved."""
    max_turns: int = Field(8, ge=1, le=200)
    """Turns of the whole team before the episode ends without success."""
    moves_per_turn: int = Field(6, ge=1, le=32)
    """Maximum number of moves of the executor in one turn, in cells."""
    step_reward: float = -0.01
    """Local reward per move made."""
    blocked_reward: float = -0.10
    """Local reward for a blocked move or push, or for an invalid answer."""
    on_goal_reward: float = 1.0
    """Team reward when a box is moved onto a goal."""
    off_goal_reward: float = -0.5
    """Team reward when a box is moved off a goal."""
    win_reward: float = 10.0
    """Team reward when all boxes are on goals."""
    fail_reward: float = -5.0
    """Team reward when the turns run out, or a box can no longer reach any goal."""
    shaping: float = Field(0.1, ge=0.0)
    """Weight of the potential-based shaping on the remaining moves, and for a plan on the remaining pushes (local reward); 0 disables."""
    shaping_discount: float = Field(0.99, gt=0.0, le=1.0)
    """Discount inside the shaping term, gamma."""

    @model_validator(mode="after")
    def _there_is_room(self) -> Self:
        inside = (self.size - 2) ** 2
        room = round((1 - self.wall_share) * inside) // 4
        if self.boxes > room:
            raise ValueError(f"boxes: at most {room} on a grid of {self.size} with this share of walls")
        return self


class EightQueens(EnvironmentSection):
    """Queens, one in each row, that attack each other: the planner picks a queen; the executor, which sees that row, moves it."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    type: Literal["eight_queens"] = "eight_queens"
    """Queens to be placed so that none attacks another."""
    size: int = Field(5, ge=4, le=16)
    """Rows, columns and queens; 8 is the classic."""
    max_turns: int = Field(8, ge=1, le=200)
    """Turns of the whole team before the episode ends without success; a turn moves one queen."""
    step_reward: float = -0.01
    """Local reward per queen moved."""
    refused_reward: float = -0.10
    """Local reward for an answer that names no row, or no new column."""
    goal_reward: float = 1.0
    """Team reward when no queen attacks another."""
    fail_reward: float = 0.0
    """Team reward when the turns run out (usually zero or negative)."""
    shaping: float = Field(1.0, ge=0.0)
    """Weight of the potential-based shaping on the pairs that attack each other (local reward); 0 disables."""
    shaping_discount: float = Field(0.99, gt=0.0, le=1.0)
    """Discount inside the shaping term, gamma."""


class Blocksworld(EnvironmentSection):
    """Blocks to be piled up: the planner, which sees the goal, names a block and its target; the executor, which sees
    the piles, moves blocks.
    """

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    type: Literal["blocksworld"] = "blocksworld"
    """Blocks in piles on a table."""
    blocks: int = Field(4, ge=2, le=12)
    """Number of blocks."""
    max_turns: int = Field(8, ge=1, le=200)
    """Turns of the whole team before the episode ends without success; a turn moves one block."""
    step_reward: float = -0.01
    """Local reward per block moved."""
    refused_reward: float = -0.10
    """Local reward for an impossible move or an invalid answer."""
    goal_reward: float = 1.0
    """Team reward when all piles match the goal."""
    fail_reward: float = 0.0
    """Team reward when the turns run out (usually zero or negative)."""
    shaping: float = Field(1.0, ge=0.0)
    """Weight of the potential-based shaping on the remaining moves (local reward); 0 disables."""
    shaping_discount: float = Field(0.99, gt=0.0, le=1.0)
    """Discount inside the shaping term, gamma."""

"""The config of Sokoban."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import cross_field
from training_core.llm.environments.puzzle_config import PuzzleRewards


class Sokoban(PuzzleRewards):
    """Sokoban: the planner, which sees boxes and goals, names a direction to push; the executor walks around the box and pushes."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    task_fields: ClassVar[tuple[str, ...]] = ("size", "boxes", "wall_share")
    play_fields: ClassVar[tuple[str, ...]] = ("max_turns", "moves_per_turn")
    local_reward_fields: ClassVar[tuple[str, ...]] = ("step_reward", "blocked_reward")
    team_reward_fields: ClassVar[tuple[str, ...]] = (
        "on_goal_reward",
        "off_goal_reward",
        "win_reward",
        "fail_reward",
    )
    type: Literal["sokoban"] = "sokoban"
    """Boxes to be pushed onto goals."""
    size: int = Field(6, ge=5, le=12)
    """Rows and columns of the grid, in cells, its border of walls included."""
    boxes: int = Field(1, ge=1, le=6)
    """Number of boxes and of goals."""
    wall_share: float = Field(0.06, ge=0.0, le=0.3)
    """Share of the cells inside the border that are walls; every level can be solved."""
    moves_per_turn: int = Field(6, ge=1, le=32)
    """Maximum number of moves of the executor in one turn, in cells."""
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

    @cross_field
    def _there_is_room(self) -> Self:
        inside = (self.size - 2) ** 2
        room = round((1 - self.wall_share) * inside) // 4
        if self.boxes > room:
            raise ValueError(f"boxes: at most {room} on a grid of {self.size} with this share of walls")
        return self

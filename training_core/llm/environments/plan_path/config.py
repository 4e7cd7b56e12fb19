"""The configs of the grid walks."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Wording
from training_core.llm.environments.puzzle_config import PuzzleRewards


class PlanPathGrid(PuzzleRewards):
    """Settings shared by the grid walks, independent of the roles."""

    task_fields: ClassVar[tuple[str, ...]] = ("size", "wall_share", "wording")
    play_fields: ClassVar[tuple[str, ...]] = ("max_turns", "moves_per_turn")
    local_reward_fields: ClassVar[tuple[str, ...]] = ("step_reward", "blocked_reward")
    team_reward_fields: ClassVar[tuple[str, ...]] = ("goal_reward", "optimal_reward", "fail_reward")
    type: str
    """Which role observes what, and which role moves."""
    wording: Wording = "words"
    """words: the tiny model's few words, answers read strictly. sentences: plain English for pretrained models, answers read leniently."""
    size: int = Field(5, ge=3, le=20)
    """Rows and columns of the grid, in cells."""
    wall_share: float = Field(0.08, ge=0.0, le=0.5)
    """Share of cells that are walls; the goal can always be reached."""
    max_turns: int = Field(5, ge=1, le=64)
    """Turns of the whole team before the episode ends without success."""
    moves_per_turn: int = Field(3, ge=1, le=8)
    """Maximum number of moves in one turn, in cells."""
    blocked_reward: float = -0.10
    """Local reward for a move into a wall or off the grid, or for an answer that is not a move."""
    goal_reward: float = 1.0
    """Team reward when the goal is reached."""
    optimal_reward: float = 0.5
    """Further team reward when the goal is reached by a shortest path."""


class PlanPath(PlanPathGrid):
    """A walk on a grid with walls to a goal that only the planner sees."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    type: Literal["plan_path"] = "plan_path"
    """Path finding on a small grid."""


class PlanPathSingle(PlanPathGrid):
    """The same walk by one agent that sees the observations of planner and executor (single-agent control)."""

    roles: ClassVar[tuple[str, ...]] = ("walker",)
    type: Literal["plan_path_single"] = "plan_path_single"
    """Path finding on a small grid by a single agent."""


class PlanPathTrio(PlanPathGrid):
    """The same walk by three: the planner sees the goal, the scout the walls, and the executor only their messages."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "scout", "executor")
    local_reward_fields: ClassVar[tuple[str, ...]] = (*PlanPathGrid.local_reward_fields, "report_reward")
    type: Literal["plan_path_trio"] = "plan_path_trio"
    """Path finding on a small grid by three agents."""
    report_reward: float = Field(0.2, ge=0.0)
    """Local reward of the scout for a report that is correct about all four sides; one that is wrong about all four gets its negative."""

"""Environments by `type`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from training_core.config.base import EnvironmentSection, Section, Wording
from training_core.config.coding import Coding
from training_core.config.puzzles import Blocksworld, EightQueens, Sokoban, Sudoku
from training_core.config.tasks import Arithmetic, CustomEnvironment, Dataset


class PlanPathGrid(EnvironmentSection):
    """Settings shared by the grid walks, independent of the roles."""

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
    step_reward: float = -0.01
    """Local reward per move made."""
    blocked_reward: float = -0.10
    """Local reward for a move into a wall or off the grid, or for an answer that is not a move."""
    goal_reward: float = 1.0
    """Team reward when the goal is reached."""
    optimal_reward: float = 0.5
    """Further team reward when the goal is reached by a shortest path."""
    fail_reward: float = 0.0
    """Team reward when the turns run out (usually zero or negative)."""
    shaping: float = Field(1.0, ge=0.0)
    """Weight of the potential-based shaping on the path length to the goal (local reward); 0 disables."""
    shaping_discount: float = Field(0.99, gt=0.0, le=1.0)
    """Discount inside the shaping term, gamma."""


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
    type: Literal["plan_path_trio"] = "plan_path_trio"
    """Path finding on a small grid by three agents."""
    report_reward: float = Field(0.2, ge=0.0)
    """Local reward of the scout for a report that is correct about all four sides; one that is wrong about all four gets its negative."""


class External(EnvironmentSection):
    """Tasks that external programs play, for workflow.type = "rollout_buffer"."""

    roles: ClassVar[tuple[str, ...]] = ("agent",)
    open_roles: ClassVar[bool] = True
    type: Literal["external"] = "external"
    """Nothing is played in this run: any roles, with rollouts from external programs."""


Environment = Annotated[
    External
    | PlanPath
    | PlanPathSingle
    | PlanPathTrio
    | Sudoku
    | Sokoban
    | EightQueens
    | Blocksworld
    | Arithmetic
    | Dataset
    | Coding
    | CustomEnvironment,
    Field(discriminator="type"),
]
"""One class per environment, selected by `type`."""

ENVIRONMENT_CONFIGS: dict[str, type[Section]] = {
    "external": External,
    "plan_path": PlanPath,
    "plan_path_single": PlanPathSingle,
    "plan_path_trio": PlanPathTrio,
    "sudoku": Sudoku,
    "sokoban": Sokoban,
    "eight_queens": EightQueens,
    "blocksworld": Blocksworld,
    "arithmetic": Arithmetic,
    "dataset": Dataset,
    "coding": Coding,
    "custom": CustomEnvironment,
}

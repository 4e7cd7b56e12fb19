"""Config fields that puzzles share: turns and rewards."""

from typing import ClassVar

from pydantic import Field

from training_core.config.base import EnvironmentSection
from training_core.config.effects import Effects, both, local_reward, unless


class PuzzleRewards(EnvironmentSection):
    """Turns, the rewards of moves and of an unsolved puzzle, and potential-based shaping."""

    play_fields: ClassVar[tuple[str, ...]] = ("max_turns",)
    local_reward_fields: ClassVar[tuple[str, ...]] = ("step_reward",)
    team_reward_fields: ClassVar[tuple[str, ...]] = ("fail_reward",)
    effects: ClassVar[Effects] = {
        "shaping": local_reward,
        "shaping_discount": both(unless("shaping", 0.0), local_reward),
    }
    max_turns: int = Field(8, ge=1, le=200)
    """Turns of the whole team before the episode ends without success."""
    step_reward: float = -0.01
    """Local reward per move made."""
    fail_reward: float = 0.0
    """Team reward when the turns run out (usually zero or negative)."""
    shaping: float = Field(1.0, ge=0.0)
    """Weight of the potential-based shaping on the remaining share of the task (local reward); 0 disables."""
    shaping_discount: float = Field(0.99, gt=0.0, le=1.0)
    """Discount inside the shaping term, gamma."""


class PuzzleConfig(PuzzleRewards):
    """A puzzle that is solved or not, in which a turn makes one move."""

    local_reward_fields: ClassVar[tuple[str, ...]] = ("step_reward", "refused_reward")
    team_reward_fields: ClassVar[tuple[str, ...]] = ("goal_reward", "fail_reward")
    refused_reward: float = -0.10
    """Local reward for a move that the rules forbid, or for an invalid answer."""
    goal_reward: float = 1.0
    """Team reward when the puzzle is solved."""

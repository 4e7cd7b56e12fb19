"""Environments that are questions with an answer: arithmetic, data sets."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import EnvironmentSection


class Arithmetic(EnvironmentSection):
    """A sum to work out: a tool agent writes it for a calculator, a reasoner answers in a box; or reasoners alone."""

    roles: ClassVar[tuple[str, ...]] = ("tool", "reasoner")
    open_roles: ClassVar[bool] = True
    type: Literal["arithmetic"] = "arithmetic"
    """Generated arithmetic problems, answers read from a box and compared exactly."""
    terms: int = Field(2, ge=2, le=8)
    """Numbers in a problem."""
    largest: int = Field(9, ge=1, le=1_000_000)
    """Largest number in a problem; the smallest is 0."""
    operators: tuple[Literal["+", "-", "*", "/"], ...] = Field(("+", "-"), min_length=1)
    """What may stand between the numbers."""
    fractions: bool = False
    """Whether results may be fractions; otherwise problems without a whole result are not asked."""
    max_turns: int = Field(1, ge=1, le=64)
    """Answers before the episode ends without success: after a wrong one the team is told so and tries again."""
    turn_discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: a right answer at turn t is paid right_reward x gamma^(t - 1), so 1 x right_reward on the first try."""
    right_reward: float = 1.0
    """Team reward for a right answer."""
    tool_reward: float = 1.0
    """Local reward of the role `tool` for an expression whose value is the right answer."""
    format_reward: float = -0.1
    """Local reward for an answer without a number in a box, or an expression that cannot be calculated."""

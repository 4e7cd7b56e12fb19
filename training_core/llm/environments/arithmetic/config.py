"""The config of arithmetic problems."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from training_core.config.base import EnvironmentSection, Wording
from training_core.config.effects import (
    Effects,
    both,
    gives_tasks,
    local_reward,
    only_if,
    team_reward,
    unless,
)

_divides = only_if(lambda at: "/" in at.section.operators, 'only with "/" among the operators')
_has_tools = only_if(
    lambda at: {"tool", at.section.proposer} & set(at.config.team.roles),
    "the team has no role tool, and environment.proposer is empty",
)


class Arithmetic(EnvironmentSection):
    """A sum to solve: a reasoner answers, by itself, after a tool agent with a calculator, or after a proposer."""

    roles: ClassVar[tuple[str, ...]] = ("tool", "reasoner")
    open_roles: ClassVar[bool] = True
    role_fields: ClassVar[tuple[str, ...]] = ("proposer",)
    task_fields: ClassVar[tuple[str, ...]] = ("terms", "largest", "operators", "wording")
    play_fields: ClassVar[tuple[str, ...]] = ("max_turns", "proposer")
    local_reward_fields: ClassVar[tuple[str, ...]] = ("format_reward",)
    team_reward_fields: ClassVar[tuple[str, ...]] = ("right_reward",)
    effects: ClassVar[Effects] = {
        "fractions": both(_divides, gives_tasks),
        "turn_discount": both(unless("max_turns", 1), team_reward),
        "tool_reward": both(_has_tools, local_reward),
    }
    type: Literal["arithmetic"] = "arithmetic"
    """Generated arithmetic problems, answers compared exactly."""
    wording: Wording = "words"
    """words: the tiny model's few words, answers read strictly. sentences: plain English for pretrained models, answers read leniently."""
    proposer: str = ""
    """Role whose answers are proposals: later roles see them and decide. Empty: every role except `tool` decides."""
    terms: int = Field(2, ge=2, le=8)
    """Numbers in a problem."""
    largest: int = Field(9, ge=1, le=1_000_000)
    """Largest number in a problem; the smallest is 0."""
    operators: tuple[Literal["+", "-", "*", "/"], ...] = Field(("+", "-"), min_length=1)
    """Operators between the numbers."""
    fractions: bool = False
    """Whether results may be fractions; otherwise problems without an integer result are not generated."""
    max_turns: int = Field(1, ge=1, le=64)
    """Turns of the whole team before the episode ends without success; a wrong answer is reported to the team, which tries again."""
    turn_discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: a correct answer at turn t gets right_reward x gamma^(t - 1), so right_reward in the first turn."""
    right_reward: float = 1.0
    """Team reward for a correct answer."""
    tool_reward: float = 1.0
    """Local reward of the role `tool` for an expression whose value is the correct answer, and of the proposer for a correct proposal."""
    format_reward: float = -0.1
    """Local reward for an answer without a number (in a box, with wording = "words"), or an expression that cannot be evaluated."""

    @classmethod
    def fixed_roles(cls, section: Mapping[str, Any]) -> tuple[str, ...]:
        """`tool` gets the calculator."""
        return ("tool",)

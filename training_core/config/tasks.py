"""Environments that are questions with an answer: arithmetic, data sets."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments, EnvironmentSection, Wording
from training_core.config.rewards import MathReward, Reward
from training_core.importing import IMPORT_PATH


class Arithmetic(EnvironmentSection):
    """A sum to solve: a reasoner answers, by itself, after a tool agent with a calculator, or after a proposer."""

    roles: ClassVar[tuple[str, ...]] = ("tool", "reasoner")
    open_roles: ClassVar[bool] = True
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


class Dataset(EnvironmentSection):
    """Prompts from a JSON Lines file, with a reward function for the answers; any roles answer them in turn."""

    roles: ClassVar[tuple[str, ...]] = ("solver",)
    open_roles: ClassVar[bool] = True
    type: Literal["dataset"] = "dataset"
    """Any prompts with a reward function."""
    file_fields: ClassVar[tuple[str, ...]] = ("path", "eval_path")
    path: str = Field(min_length=1)
    """File of lines {instance_id?, prompt: text or messages, label? or answer?, ...}, below TROUPE_HOME/data on the worker's machine."""
    eval_path: str = ""
    """File of the held-out lines; empty uses a held-out share of `path`."""
    eval_share: float = Field(0.1, gt=0.0, lt=1.0)
    """Held-out share of the lines, selected by instance_id; unused with an eval_path."""
    max_turns: int = Field(1, ge=1, le=64)
    """Turns of the whole team before the episode ends; after an incorrect answer the team tries again."""
    turn_discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: a role's answer at its turn t gets its reward x gamma^(t - 1)."""
    success_reward: float = 1.0
    """An answer with at least this reward is correct and ends the episode."""
    reward: Reward = MathReward()
    """The reward function for answers."""

    @property
    def answers_at_a_time(self) -> int:
        """Answers that are scored at the same time."""
        return self.reward.processes


class CustomEnvironment(EnvironmentSection):
    """A custom environment by import path; its roles are those of the team."""

    open_roles: ClassVar[bool] = True
    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """A custom class that implements TextEnvironment."""
    path: str = Field(pattern=IMPORT_PATH)
    """Import path package.module:Class; the class is constructed with `seed` and `args`."""
    args: Arguments = {}
    """Additional keyword arguments that the class is constructed with."""
    max_turns: int = Field(64, ge=1, le=1024)
    """Maximum number of turns of the whole team; the environment may end the episode earlier."""
    threads: int = Field(1, ge=1, le=256)
    """Threads that evaluate answers: above 1 for environments that wait for other programs."""

    @property
    def answers_at_a_time(self) -> int:
        """Threads that evaluate answers."""
        return self.threads

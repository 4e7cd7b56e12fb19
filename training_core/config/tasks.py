"""Environments that are questions with an answer: arithmetic, data sets."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments, EnvironmentSection, Wording
from training_core.config.rewards import MathReward, Reward
from training_core.importing import IMPORT_PATH


class Arithmetic(EnvironmentSection):
    """A sum to work out: a reasoner answers, alone or after a calculator's tool agent, or after a proposer."""

    roles: ClassVar[tuple[str, ...]] = ("tool", "reasoner")
    open_roles: ClassVar[bool] = True
    type: Literal["arithmetic"] = "arithmetic"
    """Generated arithmetic problems, answers compared exactly."""
    wording: Wording = "words"
    """words: the tiny model's few words, answers read strictly. sentences: plain English for pretrained models, answers read leniently."""
    proposer: str = ""
    """Role whose answers are proposals: roles after it see them and decide. Empty: every role but `tool` decides."""
    terms: int = Field(2, ge=2, le=8)
    """Numbers in a problem."""
    largest: int = Field(9, ge=1, le=1_000_000)
    """Largest number in a problem; the smallest is 0."""
    operators: tuple[Literal["+", "-", "*", "/"], ...] = Field(("+", "-"), min_length=1)
    """What may stand between the numbers."""
    fractions: bool = False
    """Whether results may be fractions; otherwise problems without a whole result are not asked."""
    max_turns: int = Field(1, ge=1, le=64)
    """Turns of the whole team before the episode ends without success: after a wrong answer it is told so and tries again."""
    turn_discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: a right answer at turn t is paid right_reward x gamma^(t - 1), so 1 x right_reward on the first try."""
    right_reward: float = 1.0
    """Team reward for a right answer."""
    tool_reward: float = 1.0
    """Local reward of the role `tool` for an expression whose value is the right answer, and of the proposer for a right proposal."""
    format_reward: float = -0.1
    """Local reward for an answer without a number (in a box, with wording = "words"), or an expression that cannot be calculated."""


class Dataset(EnvironmentSection):
    """Prompts from a file of JSON Lines, judged by a reward function; any roles answer them in turn."""

    roles: ClassVar[tuple[str, ...]] = ("solver",)
    open_roles: ClassVar[bool] = True
    type: Literal["dataset"] = "dataset"
    """Any prompts with a reward function."""
    file_fields: ClassVar[tuple[str, ...]] = ("path", "eval_path")
    path: str = Field(min_length=1)
    """File of lines {instance_id?, prompt: text or messages, label? or answer?, ...}, below TROUPE_HOME/data where runs are played."""
    eval_path: str = ""
    """File of the held-out lines; empty holds out a share of `path`."""
    eval_share: float = Field(0.1, gt=0.0, lt=1.0)
    """Share of the lines that is held out, chosen by instance_id; unused with an eval_path."""
    max_turns: int = Field(1, ge=1, le=64)
    """Turns of the whole team before the episode ends: after an answer that is not right it tries again."""
    turn_discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: a role's answer at its turn t is paid its reward x gamma^(t - 1)."""
    success_reward: float = 1.0
    """An answer that the reward function pays at least this much is right, and ends the episode."""
    reward: Reward = MathReward()
    """What judges an answer."""

    @property
    def answers_at_a_time(self) -> int:
        """Answers that are judged at a time."""
        return self.reward.processes


class CustomEnvironment(EnvironmentSection):
    """An environment of your own, by import path; its roles are whatever the team's are."""

    open_roles: ClassVar[bool] = True
    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """A class of your own that fulfils TextEnvironment."""
    path: str = Field(pattern=IMPORT_PATH)
    """Where it is: package.module:Class, made with `seed` and `args`."""
    args: Arguments = {}
    """Further keyword arguments that it is made with."""
    max_turns: int = Field(64, ge=1, le=1024)
    """Turns of the whole team at most; the environment may end earlier."""
    threads: int = Field(1, ge=1, le=256)
    """Answers that are tried at a time, in threads: above 1 for environments that wait for other programs."""

    @property
    def answers_at_a_time(self) -> int:
        """Threads that try answers."""
        return self.threads

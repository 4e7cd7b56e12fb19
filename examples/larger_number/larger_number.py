"""The larger of two numbers, in one turn: the player sees `3 7` and answers `7`.

Demonstrations for the tiny base model answer with one of the two numbers, at random. The run learns which.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import Field

from training_core.config.base import EnvironmentSection
from training_core.llm.environments.base import Split, StepResult, WarmStart
from training_core.llm.environments.task_environment import TaskEnvironment, Tasks, held_out, keyed_random


class LargerNumber(EnvironmentSection):
    """Two numbers: the player names the larger one."""

    roles: ClassVar[tuple[str, ...]] = ("player",)
    task_fields: ClassVar[tuple[str, ...]] = ("largest",)
    team_reward_fields: ClassVar[tuple[str, ...]] = ("right_reward",)
    type: Literal["larger_number"] = "larger_number"
    """The larger of two numbers."""
    largest: int = Field(30, ge=9, le=1000)
    """Largest number; the smallest is 0."""
    right_reward: float = 1.0
    """Team reward for the right answer."""


@dataclass(frozen=True)
class Pair:
    """A task instance."""

    first: int
    second: int

    @property
    def identity(self) -> str:
        """A pair and its reverse are in the same split."""
        return repr(sorted((self.first, self.second)))


def draw_pair(config: LargerNumber, random: Random, split: Split) -> Pair:
    """A pair of a split."""
    while True:
        pair = Pair(*random.sample(range(config.largest + 1), 2))
        if held_out(pair) == (split == "eval"):
            return pair


PAIRS = Tasks(draw_pair)


class LargerNumberGame(TaskEnvironment[LargerNumber, Pair]):
    """One pair."""

    roles: ClassVar[tuple[str, ...]] = ("player",)
    tasks = PAIRS

    def begin(self, pair: Pair) -> None:
        """Start with a pair."""
        self.pair, self.answer = pair, ""

    def observe(self, role: str) -> str:
        """Both numbers."""
        return self.title

    def act(self, role: str, answer: str) -> StepResult:
        """The only turn."""
        self.answer, self.turns, self.done = answer.strip(), 1, True
        self.success = self.answer == str(max(self.pair.first, self.pair.second))
        reward = self.config.right_reward if self.success else 0.0
        return StepResult(0.0, reward, self.done, self.success, "right" if self.success else "wrong")

    def board(self) -> dict[str, Any]:
        """Numbers and answer, line by line."""
        lines = [{"label": "numbers", "text": self.title}]
        if self.done:
            state = "good" if self.success else "bad"
            lines.append({"label": "answer", "text": self.answer[:80], "state": state})
        return {"kind": "lines", "lines": lines}

    @property
    def title(self) -> str:
        """Both numbers."""
        return f"{self.pair.first} {self.pair.second}"

    @property
    def outcome(self) -> str:
        """The outcome."""
        return self.in_turns("right")


def vocabulary(config: LargerNumber) -> tuple[str, ...]:
    """All numbers."""
    return tuple(str(number) for number in range(config.largest + 1))


def demonstrations(config: LargerNumber, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer."""
    random = keyed_random(seed, 2)
    while True:
        pair = draw_pair(config, random, "train")
        yield f"{pair.first} {pair.second}", str(random.choice((pair.first, pair.second)))


WARM_START = WarmStart(vocabulary, demonstrations, noise=0.0)

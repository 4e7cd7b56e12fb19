"""A text environment for speed: two roles speak in turn, and a reward depends on an answer's words alone."""

import copy
import random
import zlib
from typing import Any, ClassVar, Self

from training_core.llm.environments.base import Split, StepResult

WORDS = 4096
"""Words of observations: w0 to w4095."""


class WordGame:
    """A task of random words; every answer is appended to what is seen, and ends after `turns` turns of both roles."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")

    def __init__(self, seed: int, words: int = 200, turns: int = 2, vocabulary: int = WORDS) -> None:
        self._seed, self._words, self._turns, self._vocabulary = seed, words, turns, vocabulary
        self._task, self._split, self._spoken = 0, "train", 0
        self._text = ""

    def reset(self, task: int, split: Split) -> None:
        """Begin a task."""
        numbers = random.Random(f"{self._seed} {split} {task}")
        self._task, self._split, self._spoken = task, split, 0
        self._text = " ".join(f"w{numbers.randrange(self._vocabulary)}" for _ in range(self._words))

    def observe(self, role: str) -> str:
        """The task and all executed answers."""
        return self._text

    def act(self, role: str, answer: str) -> StepResult:
        """A reward between 0 and 1 that depends on the answer, so that candidates of a group differ."""
        reward = zlib.crc32(answer.encode()) / 2**32
        self._text += f" {answer}"
        self._spoken += 1
        return StepResult(reward, 0.0, self.done, self.done, "spoken")

    def copy(self) -> Self:
        """An independent copy."""
        return copy.copy(self)

    def board(self) -> dict[str, Any]:
        """No picture."""
        return {}

    @property
    def title(self) -> str:
        """The task's number."""
        return f"words {self._task}"

    @property
    def task_id(self) -> str:
        """The task's name."""
        return f"{self._split}-{self._task}"

    @property
    def outcome(self) -> str:
        """How often the roles have spoken."""
        return f"{self._spoken} answers"

    @property
    def success(self) -> bool:
        """Whether all turns were played."""
        return self.done

    @property
    def done(self) -> bool:
        """Whether all turns were played."""
        return self._spoken >= 2 * self._turns

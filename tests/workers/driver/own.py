"""A package of a user's own, as the tests name it by import path."""

import copy
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Self

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import play_episodes
from training_core.types import Episode, Message


class Say:
    """A world in which one word is paid."""

    def __init__(self, seed: int, word: str) -> None:
        self.seed, self.word = seed, word
        self.title = f"say {word}"
        self.task_id, self.outcome = "", "under way"
        self.done = self.success = False

    def reset(self, task: int, split: Split) -> None:
        self.task_id, self.done, self.success = f"{split}-{task}", False, False

    def observe(self, role: str) -> str:
        return "goal 1 east"

    def act(self, role: str, answer: str) -> StepResult:
        self.done, self.success = True, self.word in answer.split()
        self.outcome = "said" if self.success else "not said"
        return StepResult(0.0, float(self.success), True, self.success, self.outcome)

    def copy(self) -> Self:
        return copy.copy(self)

    def board(self) -> dict[str, Any]:
        return {"kind": "lines", "lines": [{"label": "word", "text": self.word, "state": ""}]}


class Talk(Say):
    """Prints, and with the word "die" kills its process afterwards: nothing can be flushed then."""

    def reset(self, task: int, split: Split) -> None:
        super().reset(task, split)
        print(f"\x1b[32mtask {task}\x1b[0m of {split}")
        sys.stderr.write("token=abc123456789 is a secret\n")
        try:
            raise ValueError("printed, not raised")
        except ValueError:
            traceback.print_exc()
        if self.word == "die":
            print("the last words")
            os.kill(os.getpid(), signal.SIGKILL)


class Play:
    """A workflow: whole episodes, with a note on each."""

    def __init__(self, note: str) -> None:
        self.note = note

    def __call__(self, tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
        episodes = play_episodes(tasks, context)
        for episode in episodes:
            episode.title = f"{self.note}: {episode.title}"
        return episodes


def louder(messages: list[Message], word: str) -> list[Message]:
    """An agent: says more to the role."""
    return [Message(role=each["role"], content=f"{each['content']} {word}") for each in messages]


def not_episodes(tasks: Sequence[int], context: RolloutContext) -> Any:
    return ["nothing"]

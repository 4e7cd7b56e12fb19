"""Base classes of environments whose tasks are drawn by number: start, copy, and counting of turns."""

import copy
from abc import ABC, abstractmethod
from typing import Generic, Protocol, Self, TypeVar

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.shaping import shaped

C = TypeVar("C")
T = TypeVar("T")


class PuzzleSection(Protocol):
    """Turns and rewards in the config of a puzzle."""

    @property
    def max_turns(self) -> int: ...
    @property
    def goal_reward(self) -> float: ...
    @property
    def fail_reward(self) -> float: ...
    @property
    def shaping(self) -> float: ...
    @property
    def shaping_discount(self) -> float: ...


P = TypeVar("P", bound=PuzzleSection)


class TaskEnvironment(ABC, Generic[C, T]):
    """Config section C, task instances T. A subclass defines `draw`, `begin`, and the observations and actions of its roles."""

    task_id: str
    """Split and number of the task."""
    turns: int
    """Completed turns of the whole team."""
    done: bool
    success: bool

    def __init__(self, config: C, seed: int) -> None:
        self.config = config
        self.seed = seed

    def reset(self, task: int, split: Split) -> None:
        """Start a task."""
        self.start(self.draw(task, split), f"{split}-{task}")

    def start(self, instance: T, task_id: str) -> None:
        """Start on a given instance."""
        self.task_id = task_id
        self.turns = 0
        self.done = self.success = False
        self.begin(instance)

    @abstractmethod
    def draw(self, task: int, split: Split) -> T:
        """The instance of a task number."""

    @abstractmethod
    def begin(self, instance: T) -> None:
        """Set the state before the first turn of an instance."""

    def copy(self) -> Self:
        """An independent copy: an environment's attributes are never changed in place, only replaced."""
        return copy.copy(self)

    def in_turns(self, done: str, left: str = "") -> str:
        """The outcome or current state: done in a number of turns, or the turns used up with something left."""
        if self.success:
            return f"{done} in {self.turns} turn{'s' * (self.turns != 1)}"
        used_up = f"turns used up, {left}" if left else "turns used up"
        return used_up if self.done else "under way"


class PuzzleEnvironment(TaskEnvironment[P, T]):
    """A puzzle that is solved or not: the config defines rewards and turns."""

    def end_of_turn(self, local: float, info: str, *, solved: bool, bonus: float = 0.0) -> StepResult:
        """The result of the answer that ends a turn of the team; `bonus` is added to goal_reward."""
        team = 0.0
        if solved:
            self.done = self.success = True
            team = self.config.goal_reward + bonus
        elif self.turns >= self.config.max_turns:
            self.done, team = True, self.config.fail_reward
        return StepResult(local, team, self.done, self.success, info)

    def shaped(self, left: float, left_after: float, whole: float) -> float:
        """Shaping reward for going from `left` to `left_after` remaining, of `whole` at the start."""
        return shaped(-left / whole, -left_after / whole, self.config.shaping, self.config.shaping_discount)

"""What environments share whose tasks are drawn by number: fields of puzzles, splits, start, copies, and turns.

Task numbers are mapped to instances: the same instance for the same (seed, split, number), and splits that never overlap.
The split is a property of the instance itself, so streams of different seeds cannot overlap, even with few instances.
"""

import copy
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import lru_cache
from random import Random
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import Field

from training_core.config.base import EnvironmentSection
from training_core.config.effects import Effects, both, local_reward, unless
from training_core.llm.environments.base import Split, StepResult

HELD_OUT_TASKS = 1024
"""Maximum number of held-out tasks."""
_HELD_OUT_SEED = 7_919
"""Held-out tasks do not depend on the run's seed, so runs can be compared."""


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


class Instance(Hashable, Protocol):
    """A task instance: frozen."""

    @property
    def identity(self) -> str:
        """The key of the split; instances that are too similar for different splits share it."""
        ...


C = TypeVar("C")
Config = TypeVar("Config", bound=Hashable)
T = TypeVar("T")
Drawn = TypeVar("Drawn", bound=Instance)


def keyed_random(*key: int) -> Random:
    """A generator by key."""
    from training_core.seeding import keyed_seed  # numpy, which configs do not import

    return Random(keyed_seed(*key))


def held_out(instance: Instance) -> bool:
    """Whether an instance is never trained on: a fixed quarter of all identities, independent of the run's seed."""
    return zlib.crc32(instance.identity.encode()) % 4 == 0


class _HeldOut(Generic[Drawn]):
    """The held-out instances of a config, all different, drawn on demand."""

    def __init__(self, draw: Callable[[Random], Drawn]) -> None:
        self._draw = draw
        self._found: dict[Drawn, None] = {}
        self._drawn = 0

    def first(self, count: int) -> list[Drawn]:
        """The first `count` of them, or fewer if not enough distinct ones exist."""
        while len(self._found) < count and self._drawn < 4 * HELD_OUT_TASKS:
            self._found.setdefault(self._draw(keyed_random(_HELD_OUT_SEED, 1, self._drawn)))
            self._drawn += 1
        return list(self._found)[:count]


class Tasks(Generic[Config, Drawn]):
    """The tasks of one kind of environment, from a function (config, random, split) -> an instance of that split."""

    def __init__(self, draw: Callable[[Config, Random, Split], Drawn]) -> None:
        self._draw = draw
        self._held_out = lru_cache(maxsize=4)(self._all_held_out)

    def instance(self, config: Config, seed: int, task: int, split: Split) -> Drawn:
        """The instance of a task number; held-out numbers wrap around."""
        if split == "train":
            return self._draw(config, keyed_random(seed, 0, task), split)
        number = task % HELD_OUT_TASKS
        instances = self._held_out(config).first(number + 1)
        return instances[number % len(instances)]

    def held_out(self, config: Config) -> tuple[Drawn, ...]:
        """All held-out tasks; fewer than HELD_OUT_TASKS if not enough distinct ones exist."""
        return tuple(self._held_out(config).first(HELD_OUT_TASKS))

    def _all_held_out(self, config: Config) -> _HeldOut[Drawn]:
        return _HeldOut(lambda random: self._draw(config, random, "eval"))


def shaped(before: float, after: float, weight: float, discount: float) -> float:
    """Potential-based shaping, a reward for progress that does not change the optimal policy:
    weight * (discount * potential after - potential before) (Ng, Harada and Russell 1999).

    Potentials are minus the remaining share of the task: -1 at the start, 0 when solved.
    """
    return weight * (discount * after - before)


class TaskEnvironment(ABC, Generic[C, T]):
    """Config section C, task instances T. A subclass defines `tasks` or `draw`, `begin`, and the observations and actions of its roles."""

    tasks: ClassVar[Tasks[Any, Any]]
    """The tasks of this kind, unless it has its own `draw`."""
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

    def draw(self, task: int, split: Split) -> T:
        """The instance of a task number."""
        instance: T = self.tasks.instance(self.config, self.seed, task, split)
        return instance

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


class PuzzleEnvironment(TaskEnvironment[P, T]):
    """A puzzle that is solved or not: the config defines rewards and turns."""

    whole: float
    """What was left at the start."""

    @property
    @abstractmethod
    def left(self) -> float:
        """What is left of the puzzle, in any unit; 0 if it is solved."""

    def start(self, instance: T, task_id: str) -> None:
        """Start on a given instance."""
        super().start(instance, task_id)
        self.whole = self.left

    def end_of_turn(self, local: float, info: str, bonus: float = 0.0) -> StepResult:
        """The result of the answer that ends a turn of the team; `bonus` is added to goal_reward."""
        team = 0.0
        if not self.left:
            self.done = self.success = True
            team = self.config.goal_reward + bonus
        elif self.turns >= self.config.max_turns:
            self.done, team = True, self.config.fail_reward
        return StepResult(local, team, self.done, self.success, info)

    def shaped(self, left: float) -> float:
        """Shaping reward for going from the present state to one with `left` remaining."""
        before, after = -self.left / self.whole, -left / self.whole
        return shaped(before, after, self.config.shaping, self.config.shaping_discount)

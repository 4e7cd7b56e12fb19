"""Task numbers to instances: the same instance for the same (seed, split, number), and splits that never overlap.

The split is a property of the instance itself, so streams of different seeds cannot overlap, even with few instances.
"""

import zlib
from collections.abc import Callable, Hashable
from functools import lru_cache
from random import Random
from typing import Generic, Protocol, TypeVar

from training_core.llm.environments.base import Split
from training_core.seeding import keyed_seed

HELD_OUT_TASKS = 1024
"""Maximum number of held-out tasks."""
_HELD_OUT_SEED = 7_919
"""Held-out tasks do not depend on the run's seed, so runs can be compared."""


class Instance(Hashable, Protocol):
    """A task instance: frozen."""

    @property
    def identity(self) -> str:
        """The key of the split; instances that are too similar for different splits share it."""
        ...


C = TypeVar("C", bound=Hashable)
T = TypeVar("T", bound=Instance)


def held_out(instance: Instance) -> bool:
    """Whether an instance is never trained on: a fixed quarter of all identities, independent of the run's seed."""
    return zlib.crc32(instance.identity.encode()) % 4 == 0


class _HeldOut(Generic[T]):
    """The held-out instances of a config, all different, drawn on demand."""

    def __init__(self, draw: Callable[[Random], T]) -> None:
        self._draw = draw
        self._found: dict[T, None] = {}
        self._drawn = 0

    def first(self, count: int) -> list[T]:
        """The first `count` of them, or fewer if not enough distinct ones exist."""
        while len(self._found) < count and self._drawn < 4 * HELD_OUT_TASKS:
            self._found.setdefault(self._draw(Random(keyed_seed(_HELD_OUT_SEED, 1, self._drawn))))
            self._drawn += 1
        return list(self._found)[:count]


class Tasks(Generic[C, T]):
    """The tasks of one kind of environment, from a function (config, random, split) -> an instance of that split."""

    def __init__(self, draw: Callable[[C, Random, Split], T]) -> None:
        self._draw = draw
        self._held_out = lru_cache(maxsize=4)(self._all_held_out)

    def instance(self, config: C, seed: int, task: int, split: Split) -> T:
        """The instance of a task number; held-out numbers wrap around."""
        if split == "train":
            return self._draw(config, Random(keyed_seed(seed, 0, task)), split)
        number = task % HELD_OUT_TASKS
        instances = self._held_out(config).first(number + 1)
        return instances[number % len(instances)]

    def held_out(self, config: C) -> tuple[T, ...]:
        """All held-out tasks; fewer than HELD_OUT_TASKS if not enough distinct ones exist."""
        return tuple(self._held_out(config).first(HELD_OUT_TASKS))

    def _all_held_out(self, config: C) -> _HeldOut[T]:
        return _HeldOut(lambda random: self._draw(config, random, "eval"))

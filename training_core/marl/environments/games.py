"""Small games as rules on arrays, and the vectorised environment that plays them: seeds, ends of episodes, last states."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from training_core.marl.environments.base import Actions, Flags, Reals, Spec, Transition, View, last_boards
from training_core.marl.environments.episodes import (
    Arrays,
    array_attributes,
    episode_seeds,
    restore_attributes,
)

Integers = NDArray[np.int64]


class Game(Protocol):
    """Rules of a game, B of which are played together. `steps` (B,) counts the steps of each episode.

    State that changes during an episode is in array attributes, which checkpoints store.
    """

    spec: Spec
    last_step: str
    """End of an episode that reaches spec.max_steps: "terminated" if it is part of the game, otherwise "truncated"."""

    def begin(self, rows: Integers, seeds: Integers) -> None:
        """Start new episodes in these rows (k,), with their seeds (k,)."""
        ...

    def play(self, actions: Mapping[str, Actions], steps: Integers) -> tuple[dict[str, Reals], Flags]:
        """One step of all: rewards by role (B, n), and which terminated (B,)."""
        ...

    def view(self, steps: Integers) -> View:
        """The current observations, in new arrays."""
        ...

    def board(self, row: int) -> dict[str, Any] | None:
        """A picture of one game."""
        ...


class Games:
    """A VectorEnvironment that plays a game."""

    def __init__(self, game: Game, count: int) -> None:
        self.game, self._count = game, count
        self._numbers = np.arange(count)
        self._seed = 0
        self._episodes, self._steps = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)

    @property
    def spec(self) -> Spec:
        return self.game.spec

    @property
    def count(self) -> int:
        return self._count

    def reset(self, seed: int, first: int = 0) -> View:
        self._seed, self._numbers = seed, np.arange(first, first + self._count)
        self._episodes[:] = -1
        self._begin(np.arange(self._count))
        return self.game.view(self._steps)

    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        rewards, terminated = self.game.play(actions, self._steps)
        self._steps += 1
        cut = (self._steps >= self.spec.max_steps) & ~terminated
        if self.game.last_step == "terminated":
            terminated, cut = terminated | cut, np.zeros_like(cut)
        ended = terminated | cut
        view = self.game.view(self._steps)
        if not ended.any():
            return Transition(view, rewards, terminated, cut)
        boards = last_boards(self, watched, ended)
        self._begin(np.flatnonzero(ended))
        return Transition(self.game.view(self._steps), rewards, terminated, cut, view, boards)

    def board(self, index: int) -> dict[str, Any] | None:
        return self.game.board(index)

    def episode_state(self) -> Arrays | None:
        own = {"seed": np.array([self._seed], dtype=np.int64), **array_attributes(self, "environment")}
        return own | array_attributes(self.game, "game")

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        self._seed = int(arrays["seed"][0])
        restore_attributes(self, "environment", arrays)
        restore_attributes(self.game, "game", arrays)
        return self.game.view(self._steps)

    def close(self) -> None:
        """There are no resources to release."""

    def _begin(self, rows: Integers) -> None:
        self._episodes[rows] += 1
        self._steps[rows] = 0
        self.game.begin(rows, episode_seeds(self._seed, self._numbers[rows], self._episodes[rows]))

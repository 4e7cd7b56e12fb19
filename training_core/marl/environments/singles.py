"""Environments that are stepped one by one, behind the vectorised interface: seeds, ends of episodes, last states, failures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from training_core.errors import ConfigError, EnvironmentFailure
from training_core.marl.environments.base import Actions, Flags, Reals, Spec, Transition, View
from training_core.marl.environments.seeds import episode_seeds


@dataclass
class Sight:
    """What agents see of one environment: a View without its first dimension."""

    observations: dict[str, Reals]
    """By role (n, D)."""
    masks: dict[str, Flags] = field(default_factory=dict)
    """By role (n, A)."""
    state: Reals | None = None
    """(S,)."""


@dataclass
class Outcome:
    """What came of a step of one environment."""

    sight: Sight
    rewards: dict[str, Reals]
    """By role (n,)."""
    terminated: bool
    truncated: bool


class Single(Protocol):
    """One environment. Arrays that it hands over may be written to by its next step."""

    spec: Spec

    def reset(self, seed: int) -> Sight:
        """Begin the episode of this seed."""
        ...

    def step(self, actions: Mapping[str, Actions]) -> Outcome:
        """One step; actions by role (n,) or (n, A). It does not begin again by itself."""
        ...

    def board(self) -> dict[str, Any] | None:
        """A picture of its present state."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class Singles:
    """A VectorEnvironment of single ones. Each episode is begun with a seed of its own, by the environment's number."""

    def __init__(self, environments: Sequence[Single]) -> None:
        self._all = list(environments)
        self._numbers = np.arange(len(self._all))
        self._episodes = np.zeros(len(self._all), dtype=np.int64)
        self._seed = 0

    @property
    def spec(self) -> Spec:
        return self._all[0].spec

    @property
    def count(self) -> int:
        return len(self._all)

    def reset(self, seed: int, first: int = 0) -> View:
        self._seed, self._numbers = seed, np.arange(first, first + self.count)
        self._episodes[:] = -1
        return stacked([self._begin(row) for row in range(self.count)])

    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        sights, finals = [], []
        boards: dict[int, dict[str, Any] | None] = {}
        rewards = {
            role: np.zeros((self.count, len(own.agents)), dtype=np.float32)
            for role, own in self.spec.roles.items()
        }
        terminated, truncated = np.zeros(self.count, dtype=bool), np.zeros(self.count, dtype=bool)
        for row in range(self.count):
            outcome = self._step(row, {role: chosen[row] for role, chosen in actions.items()})
            terminated[row], truncated[row] = outcome.terminated, outcome.truncated
            for role, earned in outcome.rewards.items():
                rewards[role][row] = earned
            finals.append(outcome.sight)
            ended = outcome.terminated or outcome.truncated
            if ended and row in watched:
                boards[row] = self.board(row)
            sights.append(self._begin(row) if ended else outcome.sight)
        final = stacked(finals) if (terminated | truncated).any() else None
        return Transition(stacked(sights), rewards, terminated, truncated, final, boards)

    def board(self, index: int) -> dict[str, Any] | None:
        return self._all[index].board()

    def close(self) -> None:
        for environment in self._all:
            environment.close()

    def _begin(self, row: int) -> Sight:
        self._episodes[row] += 1
        seed = episode_seeds(self._seed, self._numbers[row : row + 1], self._episodes[row : row + 1])[0]
        try:
            return self._all[row].reset(int(seed))
        except Exception as error:
            raise self._failure(row, "reset", error) from error

    def _step(self, row: int, actions: Mapping[str, Actions]) -> Outcome:
        try:
            return self._all[row].step(actions)
        except Exception as error:
            raise self._failure(row, "step", error) from error

    def _failure(self, row: int, act: str, error: Exception) -> Exception:
        if isinstance(error, ConfigError):
            return error
        said = str(error) if isinstance(error, EnvironmentFailure) else f"{type(error).__name__}: {error}"
        return EnvironmentFailure(f"environment {self._numbers[row]}, {act}: {said}")


def stacked(sights: Sequence[Sight]) -> View:
    """Sights of B environments as one View; their arrays are copied."""
    first = sights[0]
    return View(
        {
            role: np.stack([sight.observations[role] for sight in sights]).astype(np.float32)
            for role in first.observations
        },
        {role: np.stack([sight.masks[role] for sight in sights]) for role in first.masks},
        None
        if first.state is None
        else np.stack([sight.state for sight in sights if sight.state is not None]).astype(np.float32),
    )

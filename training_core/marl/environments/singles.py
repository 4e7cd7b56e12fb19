"""Environments that are stepped one by one, behind the vectorised interface: seeds, ends of episodes, last states.

If one raises in a step, or returns a number that is not finite, only its episode fails, and it begins the next one.
An environment that cannot begin an episode is constructed again once; if that fails too, the error is raised.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from training_core.errors import EnvironmentFailure, TroupeError
from training_core.marl.environments.base import (
    Actions,
    Failure,
    Flags,
    Reals,
    Spec,
    Success,
    Transition,
    View,
)
from training_core.marl.environments.keeping import ActionLog, Kept
from training_core.marl.environments.seeds import episode_seeds

log = logging.getLogger(__name__)


@dataclass
class Sight:
    """Observations of one environment: a View without its first dimension."""

    observations: dict[str, Reals]
    """By role (n, D)."""
    masks: dict[str, Flags] = field(default_factory=dict)
    """By role (n, A)."""
    state: Reals | None = None
    """(S,)."""
    alive: dict[str, Flags] = field(default_factory=dict)
    """By role (n,), as in a View."""


@dataclass
class Outcome:
    """The result of a step of one environment."""

    sight: Sight
    rewards: dict[str, Reals]
    """By role (n,)."""
    terminated: bool
    truncated: bool
    agent_terminated: dict[str, Flags] = field(default_factory=dict)
    """By role (n,), as in a Transition."""
    success: Success | None = None
    """Success of an episode that has ended."""


class Single(Protocol):
    """One environment. Its next step may overwrite returned arrays."""

    spec: Spec

    def reset(self, seed: int) -> Sight:
        """Begin the episode of this seed."""
        ...

    def step(self, actions: Mapping[str, Actions]) -> Outcome:
        """One step; actions by role (n,) or (n, A). It does not reset automatically."""
        ...

    def board(self) -> dict[str, Any] | None:
        """A picture of its current state."""
        ...

    def close(self) -> None:
        """Release resources."""
        ...


class Singles:
    """A VectorEnvironment of single ones. Each episode has its own seed, derived from the environment's number."""

    def __init__(self, make: Callable[[], Single], count: int, name: str) -> None:
        """`name` is the display name. Raises ConfigError, and EnvironmentFailure if `make` raises anything else."""
        self._make, self._name = make, name
        self._all = [self._made() for _ in range(count)]
        self._numbers = np.arange(count)
        self._episodes = np.zeros(count, dtype=np.int64)
        self._seed = 0
        self._log = ActionLog(count)
        self._drawn = True

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
        boards: dict[int, dict[str, Any] | None] = {}
        rewards = {
            role: np.zeros((self.count, len(own.agents)), dtype=np.float32)
            for role, own in self.spec.roles.items()
        }
        terminated, truncated = np.zeros(self.count, dtype=bool), np.zeros(self.count, dtype=bool)
        failures: dict[int, Failure] = {}
        successes: dict[int, Success] = {}
        own_ends: dict[str, Flags] = {}
        sights, finals = [], []
        for row in range(self.count):
            outcome = self._step(row, {role: chosen[row] for role, chosen in actions.items()})
            if isinstance(outcome, Failure):
                failures[row], truncated[row] = outcome, True
                sights.append(self._begin(row))
                finals.append(sights[-1])
                continue
            terminated[row], truncated[row] = outcome.terminated, outcome.truncated
            for role, earned in outcome.rewards.items():
                rewards[role][row] = earned
            for role, own in outcome.agent_terminated.items():
                own_ends.setdefault(role, np.zeros_like(rewards[role], dtype=bool))[row] = own
            if outcome.success is not None:
                successes[row] = outcome.success
            finals.append(outcome.sight)
            ended = outcome.terminated or outcome.truncated
            if ended and row in watched:
                boards[row] = self.board(row)
            sights.append(self._begin(row) if ended else outcome.sight)
        final = stacked(finals) if (terminated | truncated).any() else None
        return Transition(
            stacked(sights), rewards, terminated, truncated, final, boards, failures, own_ends, successes
        )

    def board(self, index: int) -> dict[str, Any] | None:
        """A picture; None after the first failure to draw one, which is logged once."""
        try:
            return self._all[index].board() if self._drawn else None
        except Exception as error:
            self._drawn = False
            log.warning("%s, board: %s; its replays have no pictures", self._name, _said(error))
            return None

    def episodes(self) -> Kept | None:
        """Seeds, and what was done since episodes began: they are played again from there."""
        counters = {"seed": np.array([self._seed]), "numbers": self._numbers, "episodes": self._episodes}
        return {name: part.copy() for name, part in counters.items()} | self._log.kept()

    def go_on(self, kept: Mapping[str, NDArray[Any]]) -> View | None:
        self._seed, self._numbers = int(kept["seed"][0]), kept["numbers"].copy()
        self._episodes = kept["episodes"] - 1
        sights = []
        for row, steps in enumerate(ActionLog.steps(kept)):
            sights.append(self._begin(row))
            for actions in steps:
                outcome = self._step(row, actions)
                if isinstance(outcome, Failure) or outcome.terminated or outcome.truncated:
                    return None
                sights[-1] = outcome.sight
        return stacked(sights)

    def close(self) -> None:
        for environment in self._all:
            environment.close()

    def _made(self) -> Single:
        try:
            return self._make()
        except TroupeError:
            raise
        except Exception as error:
            raise EnvironmentFailure(
                f"{self._name} cannot be constructed: {_said(error)}. Fix it, and test it separately before you "
                "launch again"
            ) from error

    def _begin(self, row: int) -> Sight:
        """Begin the next episode, with a newly constructed environment if this one cannot begin it."""
        self._episodes[row] += 1
        self._log.begin(row)
        seed = int(episode_seeds(self._seed, self._numbers[row : row + 1], self._episodes[row : row + 1])[0])
        try:
            return self._reset(row, seed)
        except EnvironmentFailure as failure:
            log.warning("%s; constructing it again", failure)
        with suppress(Exception):  # an environment that cannot begin may also fail to close
            self._all[row].close()
        self._all[row] = self._made()
        return self._reset(row, seed)

    def _reset(self, row: int, seed: int) -> Sight:
        try:
            sight = self._all[row].reset(seed)
            _refuse_no_numbers(sight)
        except Exception as error:
            raise EnvironmentFailure(
                f"environment {self._numbers[row]}, {self._name}, cannot begin an episode: {_said(error)}. Fix its "
                f"reset, and test it separately with seed={seed} before you launch again"
            ) from error
        return sight

    def _step(self, row: int, actions: Mapping[str, Actions]) -> Outcome | Failure:
        try:
            self._log.add(row, actions)
            outcome = self._all[row].step(actions)
            _refuse_no_numbers(outcome.sight, outcome.rewards)
        except Exception as error:
            return Failure(f"environment {self._numbers[row]}, {self._name}, step: {_said(error)}")
        return outcome


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, EnvironmentFailure) else f"{type(error).__name__}: {error}"


def _refuse_no_numbers(sight: Sight, rewards: Mapping[str, Reals] | None = None) -> None:
    """Raises EnvironmentFailure if training data is nan or infinite."""
    found = {f"rewards of {role}": earned for role, earned in (rewards or {}).items()}
    found |= {f"observations of {role}": seen for role, seen in sight.observations.items()}
    if sight.state is not None:
        found["critic_obs"] = sight.state
    for what, numbers in found.items():
        if not np.isfinite(numbers).all():
            raise EnvironmentFailure(f"{what} are not finite (nan or infinite)")


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
        {role: np.stack([sight.alive[role] for sight in sights]) for role in first.alive},
    )

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
    joined_views,
)
from training_core.marl.environments.episodes import ActionLog, Arrays, episode_seeds

log = logging.getLogger(__name__)


@dataclass
class SingleView:
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

    view: SingleView
    rewards: dict[str, Reals]
    """By role (n,)."""
    terminated: bool
    truncated: bool
    agent_terminated: dict[str, Flags] = field(default_factory=dict)
    """By role (n,), as in a Transition."""
    success: Success | None = None
    """Success of an episode that has ended."""


class SingleEnvironment(Protocol):
    """One environment. Its next step may overwrite returned arrays."""

    spec: Spec

    def reset(self, seed: int) -> SingleView:
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


class SequentialEnvironments:
    """A VectorEnvironment of single ones. Each episode has its own seed, derived from the environment's number."""

    def __init__(self, make: Callable[[], SingleEnvironment], count: int, name: str) -> None:
        """`name` is the display name. Raises ConfigError, and EnvironmentFailure if `make` raises anything else."""
        self._make, self._name = make, name
        self._all = [self._construct() for _ in range(count)]
        self._numbers = np.arange(count)
        self._episodes = np.zeros(count, dtype=np.int64)
        self._seed = 0
        self._log = ActionLog(count)
        self._has_pictures = True

    @property
    def spec(self) -> Spec:
        return self._all[0].spec

    @property
    def count(self) -> int:
        return len(self._all)

    def reset(self, seed: int, first: int = 0) -> View:
        self._seed, self._numbers = seed, np.arange(first, first + self.count)
        self._episodes[:] = -1
        return stack_views([self._begin(row) for row in range(self.count)])

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
        views, finals = [], []
        for row in range(self.count):
            outcome = self._step(row, {role: chosen[row] for role, chosen in actions.items()})
            if isinstance(outcome, Failure):
                failures[row], truncated[row] = outcome, True
                views.append(self._begin(row))
                finals.append(views[-1])
                continue
            terminated[row], truncated[row] = outcome.terminated, outcome.truncated
            for role, earned in outcome.rewards.items():
                rewards[role][row] = earned
            for role, own in outcome.agent_terminated.items():
                own_ends.setdefault(role, np.zeros_like(rewards[role], dtype=bool))[row] = own
            if outcome.success is not None:
                successes[row] = outcome.success
            finals.append(outcome.view)
            ended = outcome.terminated or outcome.truncated
            if ended and row in watched:
                boards[row] = self.board(row)
            views.append(self._begin(row) if ended else outcome.view)
        final = stack_views(finals) if (terminated | truncated).any() else None
        return Transition(
            stack_views(views), rewards, terminated, truncated, final, boards, failures, own_ends, successes
        )

    def board(self, index: int) -> dict[str, Any] | None:
        """A picture; None after the first failure to draw one, which is logged once."""
        try:
            return self._all[index].board() if self._has_pictures else None
        except Exception as error:
            self._has_pictures = False
            log.warning("%s, board: %s; its replays have no pictures", self._name, _describe(error))
            return None

    def episode_state(self) -> Arrays | None:
        """Seeds, and what was done since episodes began: they are played again from there."""
        counters = {"seed": np.array([self._seed]), "numbers": self._numbers, "episodes": self._episodes}
        return {name: part.copy() for name, part in counters.items()} | self._log.arrays()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        self._seed, self._numbers = int(arrays["seed"][0]), arrays["numbers"].copy()
        self._episodes = arrays["episodes"] - 1
        views = []
        for row, steps in enumerate(ActionLog.steps(arrays)):
            views.append(self._begin(row))
            for actions in steps:
                outcome = self._step(row, actions)
                if isinstance(outcome, Failure) or outcome.terminated or outcome.truncated:
                    return None
                views[-1] = outcome.view
        return stack_views(views)

    def close(self) -> None:
        for environment in self._all:
            environment.close()

    def _construct(self) -> SingleEnvironment:
        try:
            return self._make()
        except TroupeError:
            raise
        except Exception as error:
            raise EnvironmentFailure(
                f"{self._name} cannot be constructed: {_describe(error)}.",
                remedy="Fix it, and test it separately before you launch again",
            ) from error

    def _begin(self, row: int) -> SingleView:
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
        self._all[row] = self._construct()
        return self._reset(row, seed)

    def _reset(self, row: int, seed: int) -> SingleView:
        try:
            view = self._all[row].reset(seed)
            _check_finite(view)
        except Exception as error:
            raise EnvironmentFailure(
                f"environment {self._numbers[row]}, {self._name}, cannot begin an episode: {_describe(error)}.",
                remedy=f"Fix its reset, and test it separately with seed={seed} before you launch again",
            ) from error
        return view

    def _step(self, row: int, actions: Mapping[str, Actions]) -> Outcome | Failure:
        try:
            self._log.add(row, actions)
            outcome = self._all[row].step(actions)
            _check_finite(outcome.view, outcome.rewards)
        except Exception as error:
            return Failure(f"environment {self._numbers[row]}, {self._name}, step: {_describe(error)}")
        return outcome


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, EnvironmentFailure) else f"{type(error).__name__}: {error}"


def _check_finite(view: SingleView, rewards: Mapping[str, Reals] | None = None) -> None:
    """Raises EnvironmentFailure if training data is nan or infinite."""
    arrays = {f"rewards of {role}": earned for role, earned in (rewards or {}).items()}
    arrays |= {f"observations of {role}": seen for role, seen in view.observations.items()}
    if view.state is not None:
        arrays["critic_obs"] = view.state
    for name, numbers in arrays.items():
        if not np.isfinite(numbers).all():
            raise EnvironmentFailure(f"{name} are not finite (nan or infinite)")


def stack_views(views: Sequence[SingleView]) -> View:
    """Views of B single environments as one View; their arrays are copied."""
    view = joined_views(views, np.stack)
    view.observations = {role: seen.astype(np.float32) for role, seen in view.observations.items()}
    view.state = None if view.state is None else view.state.astype(np.float32)
    return view

"""Workers that host environments in a process of their own, on the CPU, without torch if the environments do not need it."""

import os
from collections.abc import Sequence

from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.rewards.judge import take_counts
from training_core.marl.environments.base import Actions, Spec, Transition, VectorEnvironment, View
from training_core.marl.environments.config import MarlEnvironment
from training_core.marl.environments.episodes import Arrays
from training_core.marl.environments.registry import make_environments
from workers.actors.machine import limit_threads, machine_load


class EnvWorker(EnvironmentHost):
    """An EnvironmentHost as an actor. An environment that raises is reported as failed."""

    def ping(self) -> int:
        """Return the process id."""
        return os.getpid()

    def system(self) -> dict[str, dict[str, float]]:
        """Load of this machine."""
        return machine_load()

    def judge_counts(self) -> dict[str, float]:
        """Counts of this process's judges since the last call."""
        return take_counts()


class MarlEnvWorker:
    """Holds numbered shares, one for each set of environments (training, evaluation)."""

    def __init__(self, section: MarlEnvironment) -> None:
        limit_threads(1)
        self._section = section
        self._shares: list[VectorEnvironment] = []

    def ping(self) -> int:
        """Return the process id."""
        return os.getpid()

    def open(self, count: int) -> tuple[int, Spec]:
        """Make `count` environments. Returns the number of the share and its spec. Raises ConfigError."""
        self._shares.append(make_environments(self._section, count))
        return len(self._shares) - 1, self._shares[-1].spec

    def reset(self, share: int, seed: int, first: int) -> View:
        return self._shares[share].reset(seed, first)

    def step(self, share: int, actions: dict[str, Actions], watched: Sequence[int]) -> Transition:
        return self._shares[share].step(actions, watched)

    def board(self, share: int, index: int) -> dict[str, object] | None:
        return self._shares[share].board(index)

    def episode_state(self, share: int) -> Arrays | None:
        return self._shares[share].episode_state()

    def restore(self, share: int, arrays: Arrays) -> View | None:
        return self._shares[share].restore(arrays)

    def close(self, share: int) -> None:
        """Close a share's environments."""
        self._shares[share].close()

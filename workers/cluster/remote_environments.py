"""Environments of small networks in separate processes: one share each, which step at the same time.

A dead worker is replaced. The current episodes of its environments fail; the environments restart with the seed of their last
reset, and the others continue.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayActorError

from training_core.marl.environments.base import Actions, Failure, Spec, Transition, VectorEnvironment, View
from training_core.marl.environments.config import MarlEnvironment
from training_core.marl.environments.episodes import Arrays
from training_core.marl.environments.split import SplitEnvironments, shares_of
from workers.cluster.answers import LOST_REMEDY, answer, exit_of
from workers.cluster.pool import MAX_LIVES
from workers.cluster.spawner import Handle
from workers.protocol.records import WorkerLost

log = logging.getLogger(__name__)

START = "start"
"""Key in a share's stored episodes: seed and first number of its last reset."""


class Host:
    """A MarlEnvWorker or its current replacement."""

    def __init__(self, name: str, spawn: Callable[..., Handle]) -> None:
        """`spawn(life=...)` starts the process; lives count from 0."""
        self.name = name
        self.life = 0
        self._spawn = spawn
        self.worker = spawn(life=0)
        self._counts: list[int] = []

    def begin_open(self, count: int) -> Any:
        """Start to make another share; `opened` waits for it."""
        self._counts.append(count)
        return self.worker.open.remote(count)

    def opened(self, reference: Any) -> tuple[int, Spec]:
        """Number and spec of the share that was opened last. Raises ConfigError, EnvironmentFailure, WorkerLost."""
        try:
            share: tuple[int, Spec] = answer(reference)
        except RayActorError as error:
            share = self.replace(self.life, error)[-1]
        return share

    def replace(self, life: int, error: RayActorError) -> list[tuple[int, Spec]]:
        """Start another worker with the same shares, none of them reset. Does nothing if the worker of this `life` was replaced.

        Raises WorkerLost after too many deaths.
        """
        if life < self.life:
            return []
        while self.life < MAX_LIVES:
            self.life += 1
            log.warning("%s died: %s; it is replaced", self.name, exit_of(error))
            ray.kill(self.worker)
            self.worker = self._spawn(life=self.life)
            try:
                return [answer(self.worker.open.remote(count)) for count in self._counts]
            except RayActorError as another:
                error = another
        raise WorkerLost(
            f"{self.name} died {MAX_LIVES + 1} times, the last time because {exit_of(error)}; "
            f"the run's log has each of them. {LOST_REMEDY}"
        ) from error


@dataclass(frozen=True)
class RemoteMaker:
    """Makes environments whose shares are in these hosts. It is pickled to the trainer."""

    hosts: Sequence[Host]

    def __call__(self, section: MarlEnvironment, count: int) -> VectorEnvironment:
        """Make `count` environments in shares of nearly equal size. `section` is that of the hosts. Raises ConfigError, WorkerLost."""
        counts = shares_of(count, len(self.hosts))
        pending = [host.begin_open(own) for host, own in zip(self.hosts, counts, strict=False)]
        return SplitEnvironments(
            [
                RemoteShare(host, own, *host.opened(reference))
                for host, own, reference in zip(self.hosts, counts, pending, strict=False)
            ]
        )


class RemoteShare:
    """A share (see split.Share) in another process."""

    def __init__(self, host: Host, count: int, number: int, spec: Spec) -> None:
        self.spec, self.count = spec, count
        self._host, self._number = host, number
        self._start = (0, 0)
        """Seed and first number of the last reset."""
        self._life = host.life
        """Life of the worker in which it was reset."""
        self._pending: Any = None

    def begin_reset(self, seed: int, first: int) -> None:
        self._start, self._life = (seed, first), self._host.life
        self._pending = self._host.worker.reset.remote(self._number, seed, first)

    def begin_step(self, actions: dict[str, Actions], watched: Sequence[int]) -> None:
        if not self._lost:
            self._pending = self._host.worker.step.remote(self._number, actions, watched)

    def view(self) -> View:
        while True:
            try:
                view: View = answer(self._pending)
                return view
            except RayActorError as error:
                self._host.replace(self._life, error)
                self.begin_reset(*self._start)

    def transition(self) -> Transition:
        if not self._lost:
            try:
                transition: Transition = answer(self._pending)
                return transition
            except RayActorError as error:
                self._host.replace(self._life, error)
        return self._cut()

    def board(self, index: int) -> dict[str, Any] | None:
        """None if the worker has died; the next step reports it."""
        if self._lost:
            return None
        try:
            board: dict[str, Any] | None = answer(self._host.worker.board.remote(self._number, index))
        except RayActorError as error:
            self._host.replace(self._life, error)
            return None
        return board

    def episode_state(self) -> Arrays | None:
        """None if the worker has died; the next step reports it."""
        if self._lost:
            return None
        try:
            arrays: Arrays | None = answer(self._host.worker.episode_state.remote(self._number))
        except RayActorError as error:
            self._host.replace(self._life, error)
            return None
        return None if arrays is None else arrays | {START: np.array(self._start, dtype=np.int64)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        """None if the worker has died; the episodes can then be restarted."""
        seed, first = arrays[START].tolist()
        self._start, self._life = (seed, first), self._host.life
        own = {name: part for name, part in arrays.items() if name != START}
        try:
            view: View | None = answer(self._host.worker.restore.remote(self._number, own))
        except RayActorError as error:
            self._host.replace(self._life, error)
            return None
        return view

    def close(self) -> None:
        answer(self._host.worker.close.remote(self._number))

    @property
    def _lost(self) -> bool:
        """Whether the worker in which it was reset has died."""
        return self._life < self._host.life

    def _cut(self) -> Transition:
        """The step in which all episodes of the share were lost, and new ones started."""
        self.begin_reset(*self._start)
        view = self.view()
        rewards = {
            role: np.zeros((self.count, len(own.agents)), dtype=np.float32)
            for role, own in self.spec.roles.items()
        }
        lost = Failure(f"{self._host.name} died and was replaced; its environments were restarted", lost=True)
        never, cut = np.zeros(self.count, dtype=bool), np.ones(self.count, dtype=bool)
        return Transition(view, rewards, never, cut, view, failures=dict.fromkeys(range(self.count), lost))

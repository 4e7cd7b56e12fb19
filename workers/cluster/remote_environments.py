"""Environments in other processes, whose workers are replaced when they die.

RemotePool hosts the environments of language models. The calls to each slot since its reset are repeated on the replacement of a dead
worker, since environments are deterministic. RemoteMaker makes those of small networks: one share each, which step at the same time.
The current episodes of a dead worker fail; its environments restart with the seed of their last reset, and the others continue.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayActorError

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import AnswersBySlot, SlotView
from training_core.marl.environments.base import Actions, Failure, Spec, Transition, VectorEnvironment, View
from training_core.marl.environments.environment_config import MarlEnvironment
from training_core.marl.environments.episode_state import Arrays
from training_core.marl.environments.split import SplitEnvironments, shares_of
from workers.cluster.actors import LOST_REMEDY, Handle, Mutex, Spawner, answer, exit_of
from workers.protocol import WorkerLost
from workers.sizing.placement import ActorSlot

log = logging.getLogger(__name__)
MAX_LIVES = 5
"""Replacements of one worker before the run fails."""
Call = tuple[str, tuple[Any, ...]]


class RemotePool:
    """An EnvironmentPool over EnvWorker actors; slot s lives on worker s mod n."""

    def __init__(self, spawner: Spawner, actor_slots: Sequence[ActorSlot], workers: Sequence[Handle]) -> None:
        self._spawner = spawner
        self._actor_slots = list(actor_slots)
        self._workers = list(workers)
        self._lives = [0] * len(self._workers)
        self._done: list[list[Call]] = [[] for _ in self._workers]
        self._mutex = Mutex()
        """Held while a thread stores a call or replaces a worker."""

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        """Start a task in each slot; environments of earlier tasks are discarded."""
        with self._mutex:
            self._done = [list(without(calls, tasks.keys())) for calls in self._done]
        return self._spread("reset", tasks)

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        """The role's view of each slot."""
        parts: dict[int, tuple[Any, ...]] = {
            worker: ([slot for slot in slots if self._home(slot) == worker], role)
            for worker in sorted({self._home(slot) for slot in slots})
        }
        return self._call("observe", parts, keep=False)

    def try_answers(self, answers: AnswersBySlot, role: str) -> dict[int, list[StepResult] | str]:
        """Step a copy of each slot's state per answer."""
        return self._spread("try_answers", answers, role)

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        """Continue each slot with the chosen copy."""
        return self._spread("commit", chosen)

    def _home(self, slot: int) -> int:
        return slot % len(self._workers)

    def _spread(self, method: str, values: Mapping[int, Any], *rest: Any) -> dict[int, Any]:
        parts: dict[int, dict[int, Any]] = {}
        for slot, value in values.items():
            parts.setdefault(self._home(slot), {})[slot] = value
        return self._call(method, {worker: (part, *rest) for worker, part in parts.items()}, keep=True)

    def _call(self, method: str, parts: Mapping[int, tuple[Any, ...]], *, keep: bool) -> dict[int, Any]:
        """Call all workers that have a part at the same time, and merge their results."""
        with self._mutex:
            pending = {
                worker: (self._lives[worker], self._send(worker, (method, part)))
                for worker, part in parts.items()
            }
        joined: dict[int, Any] = {}
        for worker, (life, reference) in pending.items():
            joined.update(self._answer(worker, life, reference, (method, parts[worker]), keep=keep))
        return joined

    def _answer(self, worker: int, life: int, reference: Any, call: Call, *, keep: bool) -> Any:
        """The result of a call that was sent in `life`. If the worker has died, the call is repeated on its replacement."""
        lost: RayActorError | None = None
        try:
            result = answer(reference)
        except RayActorError as error:
            lost = error
        with self._mutex:
            if lost is not None:
                result = self._repeat(worker, life, call, lost)
            elif keep and life < self._lives[worker]:
                # Another thread replaced the worker before the call was stored: the new worker has not seen it.
                result = self._repeat(worker, life, call, None)
            if keep:
                self._done[worker].append(call)
        return result

    def _send(self, worker: int, call: Call) -> Any:
        method, arguments = call
        return getattr(self._workers[worker], method).remote(*arguments)

    def _repeat(self, worker: int, life: int, call: Call, error: RayActorError | None) -> Any:
        """Replace a worker that died in `life`, repeat its stored calls, and make the call.

        If another thread has replaced it already, only make the call (`error` may be None then).
        """
        if life < self._lives[worker]:
            try:
                return answer(self._send(worker, call))
            except RayActorError as another:
                error = another
        while self._lives[worker] < MAX_LIVES:
            self._lives[worker] += 1
            log.warning("%s died: %s; it is replaced", self._actor_slots[worker].name, _how(error))
            ray.kill(self._workers[worker])
            self._workers[worker] = self._spawner.env_worker(self._actor_slots[worker], self._lives[worker])
            try:
                references = [self._send(worker, past) for past in [*self._done[worker], call]]
                return [answer(reference) for reference in references][-1]
            except RayActorError as another:
                error = another
        raise WorkerLost(
            f"{self._actor_slots[worker].name} died {MAX_LIVES + 1} times, the last time because {_how(error)}; "
            f"the run's log has each of them. {LOST_REMEDY}"
        ) from error


def _how(error: RayActorError | None) -> str:
    return exit_of(error) if error is not None else "another call found it dead"


def without(calls: Sequence[Call], slots: Collection[int]) -> Iterator[Call]:
    """The calls without their parts for these slots."""
    for method, (by_slot, *rest) in calls:
        others = {slot: value for slot, value in by_slot.items() if slot not in slots}
        if others:
            yield method, (others, *rest)


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

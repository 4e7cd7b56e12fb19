"""Environments in other processes, whose workers are replaced when they die.

RemotePool hosts the environments of language models. The calls to each slot since its reset are repeated on the replacement of a dead
worker, since environments are deterministic. RemoteMaker makes those of small networks: one share each, which step at the same time.
The current episodes of a dead worker fail; its environments restart with the seed of their last reset, and the others continue.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.exceptions import RayActorError

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import AnswersBySlot, SlotView, Source
from training_core.llm.rewards.judge import take_counts
from training_core.marl.environments.base import Actions, Failure, Spec, Transition, VectorEnvironment, View
from training_core.marl.environments.config import MarlEnvironment
from training_core.marl.environments.episodes import Arrays
from training_core.marl.environments.split import SplitEnvironments, shares_of
from workers.actors.members import Call, Handle, Member, Mutex

PastCall = tuple[str, tuple[Any, ...]]
"""Method and arguments."""
START = "start"
"""Key in a share's stored episodes: seed and first number of its last reset."""


class RemotePool:
    """An EnvironmentPool over EnvWorker actors. Threads may play at the same time in different slots.

    Slot s starts its tasks on worker s mod n; a copied state lives on the worker of its source.
    """

    def __init__(self, workers: Sequence[Member]) -> None:
        self._workers = list(workers)
        self._done: list[list[PastCall]] = [[] for _ in self._workers]
        self._homes: dict[int, int] = {}
        """Workers of the slots whose state was copied from another slot."""
        self._mutex = Mutex()
        """Held while a thread stores a call or replaces a worker."""

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        """Start a task in each slot; environments of earlier tasks are discarded."""
        with self._mutex:
            self._forget(tasks)
        return self._scatter("reset", tasks)

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        """The role's view of each slot."""
        parts: dict[int, tuple[Any, ...]] = {
            worker: ([slot for slot in slots if self._home(slot) == worker], role)
            for worker in sorted({self._home(slot) for slot in slots})
        }
        return self._call("observe", parts)

    def try_answers(self, answers: AnswersBySlot, role: str) -> dict[int, list[StepResult] | str]:
        """Step a copy of each slot's state per answer."""
        return self._scatter("try_answers", answers, role)

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        """Continue each slot with the chosen copy."""
        return self._scatter("commit", chosen)

    def spread(self, sources: dict[int, Source]) -> dict[int, SlotView]:
        """Copy states within the workers. A slot's stored calls are then those of its source, up to the copied state."""
        parts: dict[int, dict[int, Source]] = {}
        with self._mutex:
            self._forget(sources)
            for slot, source in sources.items():
                self._homes[slot] = self._home(source.slot)
                parts.setdefault(self._homes[slot], {})[slot] = source
        return self._call("spread", {worker: (part,) for worker, part in parts.items()}, self._store_copies)

    def judge_counts(self) -> dict[str, float]:
        """Counts of the judges of this process and of the workers since the last call; those of a dead worker are lost."""
        total = defaultdict(float, take_counts())
        for call in [worker.send("judge_counts") for worker in self._workers]:
            with suppress(RayActorError):  # replaced at the next call that needs it
                for name, value in call.result().items():
                    total[name] += value
        return total

    def _home(self, slot: int) -> int:
        return self._homes.get(slot, slot % len(self._workers))

    def _forget(self, slots: Collection[int]) -> None:
        """Forget the stored calls and the workers of slots that get another state."""
        self._done = [list(without(calls, slots)) for calls in self._done]
        for slot in slots:
            self._homes.pop(slot, None)

    def _scatter(self, method: str, values: Mapping[int, Any], *rest: Any) -> dict[int, Any]:
        parts: dict[int, dict[int, Any]] = {}
        for slot, value in values.items():
            parts.setdefault(self._home(slot), {})[slot] = value
        calls = {worker: (part, *rest) for worker, part in parts.items()}
        return self._call(method, calls, self._store_call)

    def _call(
        self,
        method: str,
        parts: Mapping[int, tuple[Any, ...]],
        store: Callable[[int, Call], None] | None = None,
    ) -> dict[int, Any]:
        """Call all workers that have a part at the same time, and merge their results. `store` keeps a call that changes states."""
        with self._mutex:
            calls = {worker: self._workers[worker].send(method, *part) for worker, part in parts.items()}
        joined: dict[int, Any] = {}
        for worker, call in calls.items():
            joined.update(self._answer(worker, call, store))
        return joined

    def _answer(self, worker: int, call: Call, store: Callable[[int, Call], None] | None) -> Any:
        """The result of a call. If its worker has died, the call is repeated on the replacement."""
        lost: RayActorError | None = None
        try:
            result = call.result()
        except RayActorError as error:
            lost = error
        with self._mutex:
            # If another thread replaced the worker before the call was stored, the new worker has not seen it.
            if lost is not None or (store and call.life < call.member.life):
                result = self._repeat(call, self._done[worker], lost)
            if store:
                store(worker, call)
        return result

    def _store_call(self, worker: int, call: Call) -> None:
        self._done[worker].append((call.method, call.arguments))

    def _store_copies(self, worker: int, call: Call) -> None:
        """Store for each slot what its source has done, as if both had done it together."""
        (sources,) = call.arguments
        targets: dict[int, list[int]] = defaultdict(list)
        for slot, source in sources.items():
            targets[source.slot].append(slot)
        self._done[worker] = [with_copies(past, targets) for past in self._done[worker]]
        chosen = {slot: source.tried for slot, source in sources.items() if source.tried is not None}
        if chosen:
            self._done[worker].append(("commit", (chosen,)))

    def _repeat(self, call: Call, past: Sequence[PastCall], error: RayActorError | None) -> Any:
        """Make a call again. If its worker has not been replaced since it died, replace it and repeat its stored calls before."""
        member = call.member
        if error is None or call.life < member.life:
            try:
                return call.again().result()
            except RayActorError as another:
                error = another

        def restore() -> Any:
            calls = [*(member.send(method, *arguments) for method, arguments in past), call.again()]
            return [repeated.result() for repeated in calls][-1]

        return member.revive(error, restore)


def without(calls: Sequence[PastCall], slots: Collection[int]) -> Iterator[PastCall]:
    """The calls without their parts for these slots."""
    for method, (by_slot, *rest) in calls:
        others = {slot: value for slot, value in by_slot.items() if slot not in slots}
        if others:
            yield method, (others, *rest)


def with_copies(call: PastCall, targets: Mapping[int, Sequence[int]]) -> PastCall:
    """The call with its part for a slot also for each of that slot's targets."""
    method, (by_slot, *rest) = call
    copied = {target: value for slot, value in by_slot.items() if slot in targets for target in targets[slot]}
    return method, (by_slot | copied, *rest)


class Host(Member):
    """A MarlEnvWorker or its current replacement."""

    def __init__(self, name: str, spawn: Callable[..., Handle]) -> None:
        super().__init__(name, spawn)
        self._counts: list[int] = []

    def begin_open(self, count: int) -> Call:
        """Start to make another share; `opened` waits for it."""
        self._counts.append(count)
        return self.send("open", count)

    def opened(self, call: Call) -> tuple[int, Spec]:
        """Number and spec of the share that was opened last. Raises ConfigError, EnvironmentFailure, WorkerLost."""
        try:
            share: tuple[int, Spec] = call.result()
        except RayActorError as error:
            share = self.replace(self.life, error)[-1]
        return share

    def replace(self, life: int, error: RayActorError) -> list[tuple[int, Spec]]:
        """Start another worker with the same shares, none of them reset. Does nothing if the worker of this `life` was replaced.

        Raises WorkerLost after too many deaths.
        """
        if life < self.life:
            return []
        return self.revive(error, lambda: [self.send("open", count).result() for count in self._counts])


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
        self._pending: Call

    def begin_reset(self, seed: int, first: int) -> None:
        self._start = seed, first
        self._pending = self._host.send("reset", self._number, seed, first)
        self._life = self._pending.life

    def begin_step(self, actions: dict[str, Actions], watched: Sequence[int]) -> None:
        if not self._lost:
            self._pending = self._host.send("step", self._number, actions, watched)

    def view(self) -> View:
        while True:
            try:
                view: View = self._pending.result()
                return view
            except RayActorError as error:
                self._host.replace(self._life, error)
                self.begin_reset(*self._start)

    def transition(self) -> Transition:
        if not self._lost:
            try:
                transition: Transition = self._pending.result()
                return transition
            except RayActorError as error:
                self._host.replace(self._life, error)
        return self._cut()

    def board(self, index: int) -> dict[str, Any] | None:
        """None if the worker has died."""
        board: dict[str, Any] | None = None if self._lost else self._ask("board", index)
        return board

    def episode_state(self) -> Arrays | None:
        """None if the worker has died."""
        arrays: Arrays | None = None if self._lost else self._ask("episode_state")
        return None if arrays is None else arrays | {START: np.array(self._start, dtype=np.int64)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        """None if the worker has died; the episodes can then be restarted."""
        seed, first = arrays[START].tolist()
        self._start, self._life = (seed, first), self._host.life
        view: View | None = self._ask(
            "restore", {name: part for name, part in arrays.items() if name != START}
        )
        return view

    def close(self) -> None:
        self._host.send("close", self._number).result()

    @property
    def _lost(self) -> bool:
        """Whether the worker in which it was reset has died."""
        return self._life < self._host.life

    def _ask(self, method: str, *arguments: Any) -> Any:
        """The worker's answer; None if it has died, which the next step reports."""
        try:
            return self._host.send(method, self._number, *arguments).result()
        except RayActorError as error:
            self._host.replace(self._life, error)
            return None

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

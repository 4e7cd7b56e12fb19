"""Many environment workers as one pool of environments.

The calls to each slot since its reset are stored per worker. They are repeated on the replacement of a dead worker,
since environments are deterministic. Threads may play at the same time in different slots.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import AnswersBySlot, SlotView
from workers.cluster.answers import LOST_REMEDY, answer, exit_of
from workers.cluster.mutex import Mutex
from workers.cluster.spawner import Handle, Spawner
from workers.protocol.records import WorkerLost
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

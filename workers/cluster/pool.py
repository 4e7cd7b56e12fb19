"""Many environment workers as one pool of environments.

What was done to each slot since it was reset is kept per worker, so that a worker that dies is replaced and brought back
to where it was: environments are deterministic. Threads may play at the same time, in slots of their own.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import Said, SlotView
from workers.cluster.answers import answer, exit_of
from workers.cluster.mutex import Mutex
from workers.cluster.spawner import Handle, Spawner
from workers.protocol.records import WorkerLost
from workers.sizing.placement import ActorSlot

log = logging.getLogger(__name__)
MAX_LIVES = 5
"""Replacements of one worker before the run gives up on it."""
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
        """Held while one thread notes what was done, or replaces a worker."""

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        """Put each slot at the start of its task; environments of earlier tasks are given up."""
        with self._mutex:
            self._done = [list(without(calls, tasks.keys())) for calls in self._done]
        return self._spread("reset", tasks)

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        """What the role sees in each slot."""
        parts: dict[int, tuple[Any, ...]] = {
            worker: ([slot for slot in slots if self._home(slot) == worker], role)
            for worker in sorted({self._home(slot) for slot in slots})
        }
        return self._call("observe", parts, keep=False)

    def try_answers(self, answers: Said, role: str) -> dict[int, list[StepResult] | str]:
        """Step a copy of each slot's state per answer."""
        return self._spread("try_answers", answers, role)

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        """Carry one copy of each slot on."""
        return self._spread("commit", chosen)

    def _home(self, slot: int) -> int:
        return slot % len(self._workers)

    def _spread(self, method: str, values: Mapping[int, Any], *rest: Any) -> dict[int, Any]:
        parts: dict[int, dict[int, Any]] = {}
        for slot, value in values.items():
            parts.setdefault(self._home(slot), {})[slot] = value
        return self._call(method, {worker: (part, *rest) for worker, part in parts.items()}, keep=True)

    def _call(self, method: str, parts: Mapping[int, tuple[Any, ...]], *, keep: bool) -> dict[int, Any]:
        """Call every worker that has a part at once; join what they answer."""
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
        """What a call that was sent in `life` answered, from a worker that knows of it afterwards."""
        lost: RayActorError | None = None
        try:
            said = answer(reference)
        except RayActorError as error:
            lost = error
        with self._mutex:
            if lost is not None:
                said = self._again(worker, life, call, lost)
            elif keep and life < self._lives[worker]:
                # Answered, then replaced by another thread before the call was noted: the new worker has not seen it.
                said = self._again(worker, life, call, None)
            if keep:
                self._done[worker].append(call)
        return said

    def _send(self, worker: int, call: Call) -> Any:
        method, arguments = call
        return getattr(self._workers[worker], method).remote(*arguments)

    def _again(self, worker: int, life: int, call: Call, error: RayActorError | None) -> Any:
        """Replace a worker that died in `life`, replay what it had done, and make the call.

        Where another thread has replaced it already, only the call is made (`error` may be None then).
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
            "the run's log has each of them"
        ) from error


def _how(error: RayActorError | None) -> str:
    return exit_of(error) if error is not None else "another call found it dead"


def without(calls: Sequence[Call], slots: Collection[int]) -> Iterator[Call]:
    """The calls less what they did to these slots."""
    for method, (by_slot, *rest) in calls:
        left = {slot: value for slot, value in by_slot.items() if slot not in slots}
        if left:
            yield method, (left, *rest)

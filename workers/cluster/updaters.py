"""The processes that update one policy, from the outside: one, or several that learn in step."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError

from training_core.types import Group
from workers.cluster.answers import answer, exit_of
from workers.cluster.spawner import Handle
from workers.protocol.records import System, WorkerLost
from workers.protocol.spec import PolicyUpdate, Ready
from workers.sizing.placement import ActorSlot

DEATH_KNOWN = 30.0
"""Seconds within which the others of a group learn that one has died."""


class Updaters:
    """Update workers of one policy. What one of them asks of all others (gradients) needs all to be called."""

    def __init__(self, actor_slots: Sequence[ActorSlot], workers: Sequence[Handle]) -> None:
        self._actor_slots = list(actor_slots)
        self._workers = list(workers)

    def start(self, resume_from: Path | None) -> Ready:
        """Have them meet at the first one's address, load, and go on from a checkpoint. Raises ModelError, CheckpointError."""
        first = self._workers[0].meeting_place.remote()
        place = ask(self._actor_slots[0], first) if len(self._workers) > 1 else None
        readies: list[Ready] = self._every("start", resume_from, place)
        return replace(readies[0], spans=[span for ready in readies for span in ready.spans])

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Each takes its share of every minibatch; the metrics are those of all. Raises StalePolicy."""
        data = ray.put(groups) if len(self._workers) > 1 else groups
        parts: list[PolicyUpdate] = self._every("update", data, iteration, version, annotated)
        return replace(
            parts[0],
            annotations={place: figures for part in parts for place, figures in part.annotations.items()},
            spans=[span for part in parts for span in part.spans],
        )

    def weights(self, version: int) -> Any:
        """Reference to the weights as they are now, from here on called `version`."""
        return [worker.weights.remote(version) for worker in self._workers][0]

    def save(self, folder: Path) -> None:
        """Write the policy's part of a checkpoint."""
        self._every("save", folder)

    def ping(self) -> None:
        """Raises WorkerLost where one has died."""
        self._every("ping")

    def system(self) -> System:
        """Load of their machines and devices."""
        whole = System({})
        for part in self._every("system"):
            whole.add(part)
        return whole

    def _every(self, method: str, *arguments: Any) -> list[Any]:
        """Call all of them; answers in order. The first failure is raised at once: the others may wait for ever."""
        references = [getattr(worker, method).remote(*arguments) for worker in self._workers]
        waiting = dict(zip(references, self._actor_slots, strict=True))
        while waiting:
            (reference, *_), _ = ray.wait(list(waiting), num_returns=1)
            try:
                ask(waiting.pop(reference), reference)
            except WorkerLost:
                raise
            except Exception:  # of one that spoke with a dead one: gloo's or NCCL's error, say
                self._name_the_dead()
                raise
        return [answer(reference) for reference in references]

    def _name_the_dead(self) -> None:
        """Where one of several has died, the others fail in their talk with it: say who. Raises WorkerLost."""
        if len(self._workers) == 1:
            return
        pings = {
            worker.ping.remote(): actor_slot
            for worker, actor_slot in zip(self._workers, self._actor_slots, strict=True)
        }
        until = time.monotonic() + DEATH_KNOWN
        while pings and time.monotonic() < until:
            done, _ = ray.wait(list(pings), num_returns=1, timeout=1.0)
            for reference in done:
                ask(pings.pop(reference), reference)


def ask(actor_slot: ActorSlot, reference: Any) -> Any:
    """Wait for a worker that cannot be replaced. Raises what it raised, WorkerLost where it has died."""
    try:
        return answer(reference)
    except RayActorError as error:
        raise WorkerLost(
            f"{actor_slot.name} died, and with it what policy {actor_slot.policy!r} had learnt since the last checkpoint: "
            f"{exit_of(error)}. A new attempt starts from the last checkpoint."
        ) from error

"""One policy's workers behind Ray, as the coordinator sees them."""

import itertools
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError

from training_core.llm.generation.base import SamplingSettings
from training_core.types import Group, Prompt
from workers.cluster.answers import answer, exit_of
from workers.cluster.mutex import Mutex
from workers.cluster.spawner import CONTROL, Handle, Spawner
from workers.cluster.updaters import Updaters, ask
from workers.protocol.records import Span, System, WorkerLost
from workers.protocol.spec import Generated, PolicyUpdate, Ready
from workers.sizing.placement import ActorSlot

log = logging.getLogger(__name__)
MAX_LIVES = 5
"""Replacements of one rollout worker before the run gives up on it."""


class ColocatedProxy:
    """A policy whose one process generates and updates."""

    def __init__(self, actor_slot: ActorSlot, worker: Handle) -> None:
        self._actor_slot = actor_slot
        self._worker = worker

    def start(self, resume_from: Path | None) -> Ready:
        ready: Ready = ask(self._actor_slot, self._worker.start.remote(resume_from))
        return ready

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        generated: Generated = ask(self._actor_slot, self._worker.generate.remote(prompts, settings, version))
        return generated

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        updated: PolicyUpdate = ask(
            self._actor_slot, self._worker.update.remote(groups, iteration, version, annotated)
        )
        return updated

    def publish(self, version: int, iteration: int) -> list[Span]:
        spans: list[Span] = ask(self._actor_slot, self._worker.publish.remote(version, iteration))
        return spans

    def save(self, folder: Path) -> None:
        ask(self._actor_slot, self._worker.save.remote(folder))

    def system(self) -> System:
        system: System = ask(self._actor_slot, self._worker.system.remote())
        return system


class SeparateProxy:
    """A policy with rollout workers and (if trained) an update worker, each on devices of its own.

    Threads may generate while weights are published.
    """

    def __init__(
        self,
        spawner: Spawner,
        actor_slots: Sequence[ActorSlot],
        rollouts: Sequence[Handle],
        updater: Updaters | None,
    ) -> None:
        self._spawner = spawner
        self._actor_slots = list(actor_slots)
        self._rollouts = list(rollouts)
        self._updater = updater
        self._lives = [0] * len(self._rollouts)
        self._recalled: Path | None = None
        """Checkpoint that a frozen policy's weights are from."""
        self._weights: Any = None
        """Reference to the last published weights; the one before is dropped with it."""
        self._mutex = Mutex()
        """Held while a worker is replaced, and while the weights are that its replacement gets."""

    def start(self, resume_from: Path | None) -> Ready:
        """A checkpoint is read by the update worker, if there is one; the others get its weights."""
        self._recalled = resume_from if self._updater is None else None
        first = [worker.start.remote(self._recalled) for worker in self._rollouts]
        if self._updater is None:
            readies: list[Ready] = [
                ask(actor_slot, item) for actor_slot, item in zip(self._actor_slots, first, strict=True)
            ]
            return readies[0]
        ready = self._updater.start(resume_from)
        for rollout, item in zip(self._actor_slots, first, strict=True):
            ready.spans.extend(ask(rollout, item).spans)
        if ready.version > 0:
            ready.spans.extend(self.publish(ready.version, 0))
        return ready

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Prompts are split over the rollout workers in order; a dead one is replaced."""
        parts = split(prompts, len(self._rollouts))
        pending = [
            (life, worker.generate.remote(part, settings, version)) if part else None
            for life, worker, part in zip(self._lives, self._rollouts, parts, strict=True)
        ]
        joined = Generated([], [])
        for index, sent in enumerate(pending):
            if sent is None:
                continue
            life, reference = sent
            asked = (parts[index], settings, version)
            answered: Generated = self._answer(index, life, reference, "generate", *asked)
            joined.answers.extend(answered.answers)
            joined.spans.extend(answered.spans)
        return joined

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        return self._trained().update(groups, iteration, version, annotated)

    def publish(self, version: int, iteration: int) -> list[Span]:
        """The weights go through the object store once, whatever the number of readers."""
        updater = self._trained()
        with self._mutex:
            self._weights = updater.weights(version)
            lives = list(self._lives)
            pending = [
                worker.load_weights.options(concurrency_group=CONTROL).remote(self._weights, iteration)
                for worker in self._rollouts
            ]
        spans: list[Span] = []
        for index, reference in enumerate(pending):
            try:
                spans.append(answer(reference))
            except RayActorError as error:
                self._replace(index, lives[index], error)
        return spans

    def save(self, folder: Path) -> None:
        if self._updater:
            self._updater.save(folder)
        else:
            life, worker = self._lives[0], self._rollouts[0]
            self._answer(0, life, worker.save.remote(folder), "save", folder)

    def system(self) -> System:
        """A worker that has died is left out: it is replaced when it is wanted to generate."""
        whole = System({})
        asked = [worker.system.options(concurrency_group=CONTROL).remote() for worker in self._rollouts]
        for reference in asked:
            with suppress(RayActorError):
                whole.add(answer(reference))
        if self._updater:
            whole.add(self._updater.system())
        return whole

    def _trained(self) -> Updaters:
        if self._updater is None:
            raise WorkerLost(f"policy {self._actor_slots[0].policy!r} is frozen: it has no update worker")
        return self._updater

    def _answer(self, index: int, life: int, reference: Any, method: str, *arguments: Any) -> Any:
        """Wait for a rollout worker asked in `life`. A dead one is replaced and the new one asked: what it says is the same,
        as the noise is keyed.
        """
        while True:
            try:
                return answer(reference)
            except RayActorError as error:
                life = self._replace(index, life, error)
                reference = getattr(self._rollouts[index], method).remote(*arguments)

    def _replace(self, index: int, life: int, error: RayActorError) -> int:
        """Replace a worker that died in `life`, unless another thread has; returns the life that goes on."""
        with self._mutex:
            if self._lives[index] == life:
                self._bury(index, error)
            return self._lives[index]

    def _bury(self, index: int, error: RayActorError) -> None:
        actor_slot = self._actor_slots[index]
        if self._lives[index] >= MAX_LIVES:
            raise WorkerLost(
                f"{actor_slot.name} died {MAX_LIVES + 1} times, the last time because {exit_of(error)}; "
                "the run's log has each of them"
            )
        if self._updater is not None:  # it may be the sender of the weights that died
            self._updater.ping()
        life = self._lives[index] + 1
        log.warning("%s died: %s; it is replaced", actor_slot.name, exit_of(error))
        ray.kill(self._rollouts[index])
        worker = self._spawner.policy_worker(actor_slot, life)
        worker.start.remote(self._recalled)
        if self._weights is not None:
            worker.load_weights.remote(self._weights, 0)
        # Only now may other threads ask it. They read the life first: none takes the dead one for the new one.
        self._rollouts[index], self._lives[index] = worker, life


def split(prompts: Sequence[Prompt], parts: int) -> list[list[Prompt]]:
    """Contiguous parts whose sizes differ by one at most; some may be empty."""
    size, longer = divmod(len(prompts), parts)
    ends = [index * size + min(index, longer) for index in range(parts + 1)]
    return [list(prompts[start:end]) for start, end in itertools.pairwise(ends)]

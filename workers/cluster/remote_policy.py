"""RemotePolicy: one policy's workers on Ray, and the process group through which its first update worker sends weights to the others."""

import itertools
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError

from training_core.llm.generation.base import SamplingSettings
from training_core.types import Group, Prompt
from workers.cluster.actors import (
    CONTROL,
    LOST_REMEDY,
    Member,
    Mutex,
    Spawner,
    answer,
    call_all,
    exit_of,
    lost,
    wait_for,
)
from workers.protocol import (
    Generated,
    PolicyProxy,
    PolicyUpdate,
    Ready,
    Span,
    System,
    TransferFailure,
    WorkerLost,
)

log = logging.getLogger(__name__)


class BroadcastGroup:
    """Connects the workers, and again after one of them was replaced or a broadcast failed."""

    def __init__(self) -> None:
        self._lives: list[int] | None = None
        """The lives of the connected rollout workers, in order; None if they are not connected."""

    def includes(self, receivers: Sequence[Member]) -> bool:
        """Whether these rollout workers are connected."""
        return self._lives == [member.life for member in receivers]

    def connect(self, sender: Member, receivers: Sequence[Member]) -> bool:
        """Connect the workers unless they are connected. Returns False if that failed; raises WorkerLost if the sender died."""
        if self.includes(receivers):
            return True
        self._lives = None
        try:
            self._connect(sender, receivers)
        except (RayActorError, TransferFailure) as error:
            self.failed(exit_of(error) if isinstance(error, RayActorError) else str(error))
            return False
        self._lives = [member.life for member in receivers]
        return True

    def failed(self, reason: str) -> None:
        """Connect again at the next publication; this one uses the object store."""
        self._lives = None
        log.warning(
            "new weights go through the object store, and the workers connect again later: %s", reason
        )

    @staticmethod
    def _connect(sender: Member, receivers: Sequence[Member]) -> None:
        controls = [member.handle for member in receivers]
        for started in [
            handle.await_start.options(concurrency_group=CONTROL).remote() for handle in controls
        ]:
            answer(started)
        address = wait_for(sender, sender.handle.open_group.remote())
        formed = sender.handle.form_group.remote(len(receivers) + 1)
        joined = [
            handle.join_group.options(concurrency_group=CONTROL).remote(address, rank, len(receivers) + 1)
            for rank, handle in enumerate(controls, start=1)
        ]
        for reference in joined:
            answer(reference)
        wait_for(sender, formed)


MAX_LIVES = 5
"""Replacements of one rollout worker before the run fails."""


class RemotePolicy(PolicyProxy):
    """A PolicyProxy over actors: rollout workers, which are replaced when they die, and update workers, if it is trained.

    A colocated policy has one actor for both, which is not replaced. Threads may generate while weights are published.
    """

    def __init__(self, spawner: Spawner, rollouts: Sequence[Member], updaters: Sequence[Member]) -> None:
        """`updaters` is empty for a frozen policy; a colocated policy's actor is in both lists."""
        self._spawner = spawner
        self._rollouts = list(rollouts)
        self._updaters = list(updaters)
        self._colocated = rollouts[0].actor_slot.kind == "policy"
        self._restored_from: Path | None = None
        """Checkpoint with the weights of a frozen policy."""
        self._weights: Any = None
        """Reference to the last published weights; it keeps them in the object store."""
        devices = spawner.config.policies[rollouts[0].actor_slot.policy].devices
        self._broadcast = BroadcastGroup() if updaters and devices.weight_transfer == "collective" else None
        self._mutex = Mutex()
        """Held while a worker is replaced, and while the weights for its replacement change."""

    def start(self, resume_from: Path | None) -> Ready:
        """Start all workers. If there are update workers, they read the checkpoint and publish its weights."""
        if self._colocated:
            return self._start_updaters(resume_from)
        self._restored_from = None if self._updaters else resume_from
        pending = [member.handle.start.remote(self._restored_from) for member in self._rollouts]
        updater = self._start_updaters(resume_from) if self._updaters else None
        readies: list[Ready] = [
            wait_for(member, reference) for member, reference in zip(self._rollouts, pending, strict=True)
        ]
        if updater is None:
            return readies[0]
        updater.spans.extend(span for ready in readies for span in ready.spans)
        if updater.version > 0:
            updater.spans.extend(self.publish(updater.version, 0))
        return updater

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Split the prompts over the rollout workers, in order. A dead worker is replaced."""
        parts = split(prompts, len(self._rollouts))
        pending = [
            (index, member, member.handle.generate.remote(parts[index], settings, version))
            for index, member in enumerate(self._rollouts)
            if parts[index]
        ]
        joined = Generated([], [])
        for index, member, reference in pending:
            arguments = (parts[index], settings, version)
            generated: Generated = self._wait(index, member, reference, "generate", *arguments)
            joined.answers.extend(generated.answers)
            joined.spans.extend(generated.spans)
        return joined

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Each update worker takes its share of every minibatch; the metrics are those of all."""
        data = ray.put(groups) if len(self._updaters) > 1 else groups
        parts: list[PolicyUpdate] = call_all(self._trained(), "update", data, iteration, version, annotated)
        return replace(
            parts[0],
            annotations={turn: figures for part in parts for turn, figures in part.annotations.items()},
            spans=[span for part in parts for span in part.spans],
        )

    def publish(self, version: int, iteration: int) -> list[Span]:
        """Send the weights to the rollout workers, by broadcast if configured, else through the object store. The store has them
        in both cases, for workers that a broadcast does not reach and for replacements.
        """
        updaters = self._trained()
        if self._colocated:
            colocated_spans: list[Span] = call_all(updaters, "publish", version, iteration)[0]
            return colocated_spans
        group = self._broadcast
        connected = group is not None and group.connect(updaters[0], list(self._rollouts))
        with self._mutex:
            members = dict(enumerate(self._rollouts))
            broadcast = connected and group is not None and group.includes(self._rollouts)
            # all update workers gather the weights, the first one returns them
            send = "send_weights" if broadcast else "weights"
            self._weights = [getattr(member.handle, send).remote(version) for member in updaters][0]
            pending = self._received(members, iteration) if broadcast else self._loaded(members, iteration)
        spans, missed = self._delivered(members, pending)
        if missed and group is not None:
            group.failed(missed[-1][1])
            without = {index: members[index] for index, _ in missed}
            spans.extend(self._delivered(without, self._loaded(without, iteration))[0])
        return spans

    def _received(self, members: Mapping[int, Member], iteration: int) -> dict[int, Any]:
        """Have rollout workers receive a broadcast."""
        return {
            index: member.handle.receive_weights.options(concurrency_group=CONTROL).remote(iteration)
            for index, member in members.items()
        }

    def _loaded(self, members: Mapping[int, Member], iteration: int) -> dict[int, Any]:
        """Have rollout workers load the last published weights from the object store."""
        return {
            index: member.handle.load_weights.options(concurrency_group=CONTROL).remote(
                self._weights, iteration
            )
            for index, member in members.items()
        }

    def _delivered(
        self, members: Mapping[int, Member], pending: Mapping[int, Any]
    ) -> tuple[list[Span], list[tuple[int, str]]]:
        """Wait for rollout workers to load weights, and replace dead ones. Returns spans, and by index why broadcasts failed."""
        spans: list[Span] = []
        missed: list[tuple[int, str]] = []
        for index, reference in pending.items():
            try:
                spans.append(answer(reference))
            except RayActorError as error:
                self._replace(index, members[index], error)
            except TransferFailure as error:
                missed.append((index, str(error)))
        return spans, missed

    def save(self, folder: Path) -> None:
        if self._updaters:
            call_all(self._updaters, "save", folder)
        else:
            member = self._rollouts[0]
            self._wait(0, member, member.handle.save.remote(folder), "save", folder)

    def system(self) -> System:
        """Leaves out dead rollout workers, which are replaced when they are needed."""
        system = System({})
        separate = [] if self._colocated else self._rollouts
        pending = [member.handle.system.options(concurrency_group=CONTROL).remote() for member in separate]
        for reference in pending:
            with suppress(RayActorError):
                system.add(answer(reference))
        for part in call_all(self._updaters, "system"):
            system.add(part)
        return system

    def _start_updaters(self, resume_from: Path | None) -> Ready:
        first = self._updaters[0]
        several = len(self._updaters) > 1
        address = wait_for(first, first.handle.free_address.remote()) if several else None
        readies: list[Ready] = call_all(self._updaters, "start", resume_from, address)
        return replace(readies[0], spans=[span for ready in readies for span in ready.spans])

    def _trained(self) -> list[Member]:
        if not self._updaters:
            policy = self._rollouts[0].actor_slot.policy
            raise WorkerLost(f"policy {policy!r} is frozen: it has no update worker")
        return self._updaters

    def _wait(self, index: int, member: Member, reference: Any, method: str, *arguments: Any) -> Any:
        """The result of a call to a rollout worker. If it died, its replacement is called: keyed noise makes the result the
        same.
        """
        while True:
            try:
                return answer(reference)
            except RayActorError as error:
                member = self._replace(index, member, error)
                reference = getattr(member.handle, method).remote(*arguments)

    def _replace(self, index: int, dead: Member, error: RayActorError) -> Member:
        """Replace a dead rollout worker, unless another thread has. Raises WorkerLost if it cannot be replaced."""
        if self._colocated:
            raise lost(dead, error) from error
        with self._mutex:
            if self._rollouts[index].life == dead.life:
                self._rollouts[index] = self._replacement(dead, error)
            return self._rollouts[index]

    def _replacement(self, dead: Member, error: RayActorError) -> Member:
        actor_slot, life = dead.actor_slot, dead.life + 1
        if life > MAX_LIVES:
            raise WorkerLost(
                f"{actor_slot.name} died {MAX_LIVES + 1} times, the last time because {exit_of(error)}; "
                f"the run's log has each of them. {LOST_REMEDY}"
            )
        call_all(self._updaters, "ping")  # the sender of the weights may have died
        log.warning("%s died: %s; it is replaced", actor_slot.name, exit_of(error))
        ray.kill(dead.handle)
        worker = self._spawner.policy_worker(actor_slot, life)
        worker.start.remote(self._restored_from)
        if self._weights is not None:
            worker.load_weights.remote(self._weights, 0)
        return Member(actor_slot, worker, life)


def split(prompts: Sequence[Prompt], parts: int) -> list[list[Prompt]]:
    """Contiguous parts whose sizes differ by at most one; some may be empty."""
    size, longer = divmod(len(prompts), parts)
    ends = [index * size + min(index, longer) for index in range(parts + 1)]
    return [list(prompts[start:end]) for start, end in itertools.pairwise(ends)]

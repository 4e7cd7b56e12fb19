"""RemotePolicy: one policy's workers on Ray, and the process group through which its first update worker sends weights to the others."""

import itertools
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError

from training_core.llm.generation.base import SamplingSettings
from training_core.types import Group, Prompt
from workers.actors.members import Call, Member, Mutex, call_all, exit_of
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
    """Connects a policy's workers, and again after one of them was replaced or a broadcast failed."""

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
        lives, size = [member.life for member in receivers], len(receivers) + 1
        try:
            for started in [member.send("await_start", control=True) for member in receivers]:
                started.result()
            address = sender.send("open_group").wait()
            formed = sender.send("form_group", size)
            joining = [
                member.send("join_group", address, rank, size, control=True)
                for rank, member in enumerate(receivers, start=1)
            ]
            for joined in joining:
                joined.result()
            formed.wait()
        except (RayActorError, TransferFailure) as error:
            self.failed(exit_of(error) if isinstance(error, RayActorError) else str(error))
            return False
        self._lives = lives
        return True

    def failed(self, reason: str) -> None:
        """Connect again at the next publication; this one uses the object store."""
        self._lives = None
        log.warning(
            "new weights go through the object store, and the workers connect again later: %s", reason
        )


class RemotePolicy(PolicyProxy):
    """A PolicyProxy over actors: rollout workers, which are replaced when they die, and update workers, if it is trained.

    A colocated policy has one actor for both, which is not replaced. Threads may generate while weights are published.
    """

    def __init__(
        self, rollouts: Sequence[Member], updaters: Sequence[Member], *, collective: bool = False
    ) -> None:
        """`updaters` is empty for a frozen policy; a colocated policy's actor is in both lists.

        collective: weights are broadcast.
        """
        self._rollouts, self._updaters = list(rollouts), list(updaters)
        self._colocated = rollouts[0] in updaters
        self._restored_from: Path | None = None
        """Checkpoint with the weights of a frozen policy."""
        self._weights: Any = None
        """Reference to the last published weights; it keeps them in the object store."""
        self._broadcast = BroadcastGroup() if updaters and collective else None
        self._mutex = Mutex()
        """Held while a worker is replaced, and while the weights for its replacement change."""

    def start(self, resume_from: Path | None) -> Ready:
        """Start all workers. If there are update workers, they read the checkpoint and publish its weights."""
        if self._colocated:
            return self._start_updaters(resume_from)
        self._restored_from = None if self._updaters else resume_from
        pending = [member.send("start", self._restored_from) for member in self._rollouts]
        updater = self._start_updaters(resume_from) if self._updaters else None
        readies: list[Ready] = [call.wait() for call in pending]
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
            member.send("generate", part, settings, version)
            for member, part in zip(self._rollouts, parts, strict=True)
            if part
        ]
        joined = Generated([], [])
        for call in pending:
            generated: Generated = self._wait(call)
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
        connected = group is not None and group.connect(updaters[0], self._rollouts)
        with self._mutex:
            broadcast = connected and group is not None and group.includes(self._rollouts)
            # all update workers gather the weights, the first one returns them
            send = "send_weights" if broadcast else "weights"
            self._weights = [member.send(send, version) for member in updaters][0].reference
            pending = (
                [member.send("receive_weights", iteration, control=True) for member in self._rollouts]
                if broadcast
                else self._load(self._rollouts, iteration)
            )
        spans, missed = self._delivered(pending)
        if missed and group is not None:
            group.failed(missed[-1][1])
            spans.extend(self._delivered(self._load([member for member, _ in missed], iteration))[0])
        return spans

    def _load(self, members: Sequence[Member], iteration: int) -> list[Call]:
        """Have rollout workers load the last published weights from the object store."""
        return [member.send("load_weights", self._weights, iteration, control=True) for member in members]

    def _delivered(self, pending: Sequence[Call]) -> tuple[list[Span], list[tuple[Member, str]]]:
        """Wait for rollout workers to load weights, and replace dead ones. Returns spans, and why broadcasts failed."""
        spans: list[Span] = []
        missed: list[tuple[Member, str]] = []
        for call in pending:
            try:
                spans.append(call.result())
            except RayActorError as error:
                self._replace(call, error)
            except TransferFailure as error:
                missed.append((call.member, str(error)))
        return spans, missed

    def snapshot(self, version: int) -> Any:
        """A reference to the current weights, which are those of `version`."""
        if self._colocated or self._weights is None:
            return [member.send("weights", version) for member in self._trained()][0].reference
        return self._weights

    def save(self, folder: Path) -> None:
        if self._updaters:
            call_all(self._updaters, "save", folder)
        else:
            self._wait(self._rollouts[0].send("save", folder))

    def system(self) -> System:
        """Leaves out dead rollout workers, which are replaced when they are needed."""
        system = System({})
        separate = [] if self._colocated else self._rollouts
        for call in [member.send("system", control=True) for member in separate]:
            with suppress(RayActorError):
                system.add(call.result())
        for part in call_all(self._updaters, "system"):
            system.add(part)
        return system

    def _start_updaters(self, resume_from: Path | None) -> Ready:
        several = len(self._updaters) > 1
        address = self._updaters[0].send("free_address").wait() if several else None
        readies: list[Ready] = call_all(self._updaters, "start", resume_from, address)
        return replace(readies[0], spans=[span for ready in readies for span in ready.spans])

    def _trained(self) -> list[Member]:
        if not self._updaters:
            raise WorkerLost(f"policy {self._rollouts[0].policy!r} is frozen: it has no update worker")
        return self._updaters

    def _wait(self, call: Call) -> Any:
        """The result of a call to a rollout worker. If it died, its replacement is called: keyed noise makes the result the
        same.
        """
        while True:
            try:
                return call.result()
            except RayActorError as error:
                self._replace(call, error)
                call = call.again()

    def _replace(self, call: Call, error: RayActorError) -> None:
        """Replace a rollout worker that died in the call, unless another thread has. Raises WorkerLost if it cannot be replaced."""
        member = call.member
        if self._colocated:
            raise member.lost(error) from error
        with self._mutex:
            if call.life == member.life:
                call_all(self._updaters, "ping")  # the sender of the weights may have died
                member.revive(error, partial(self._prepare, member))

    def _prepare(self, member: Member) -> None:
        """Have a new rollout worker load its model and the last published weights, before the next calls."""
        member.send("start", self._restored_from)
        if self._weights is not None:
            member.send("load_weights", self._weights, 0)


def split(prompts: Sequence[Prompt], parts: int) -> list[list[Prompt]]:
    """Contiguous parts whose sizes differ by at most one; some may be empty."""
    size, longer = divmod(len(prompts), parts)
    ends = [index * size + min(index, longer) for index in range(parts + 1)]
    return [list(prompts[start:end]) for start, end in itertools.pairwise(ends)]

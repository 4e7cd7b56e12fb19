"""Environments of small networks in processes of their own: one share each, all of which step at the same time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from training_core.config.marl.environments import MarlEnvironment
from training_core.marl.environments.base import Actions, Spec, Transition, VectorEnvironment, View
from training_core.marl.environments.split import SplitEnvironments, shares_of
from workers.cluster.spawner import Handle
from workers.loops.records import WorkerLost


@dataclass(frozen=True)
class RemoteMaker:
    """Makes environments whose shares live in these MarlEnvWorkers. Travels to the trainer."""

    workers: Sequence[Handle]

    def __call__(self, section: MarlEnvironment, count: int) -> VectorEnvironment:
        """`count` environments, as even shares as can be. `section` is the workers' own. Raises ConfigError, WorkerLost."""
        counts = shares_of(count, len(self.workers))
        opened = [worker.open.remote(own) for worker, own in zip(self.workers, counts, strict=False)]
        shares = []
        for worker, own, reference in zip(self.workers, counts, opened, strict=False):
            number, spec = answer(reference)
            shares.append(RemoteShare(worker, number, spec, own))
        return SplitEnvironments(shares)


class RemoteShare:
    """A share (see split.Share) in another process."""

    def __init__(self, worker: Handle, number: int, spec: Spec, count: int) -> None:
        self.spec, self.count = spec, count
        self._worker, self._number = worker, number
        self._begun: Any = None

    def begin_reset(self, seed: int, first: int) -> None:
        self._begun = self._worker.reset.remote(self._number, seed, first)

    def begin_step(self, actions: dict[str, Actions], watched: Sequence[int]) -> None:
        self._begun = self._worker.step.remote(self._number, actions, watched)

    def view(self) -> View:
        view: View = answer(self._begun)
        return view

    def transition(self) -> Transition:
        transition: Transition = answer(self._begun)
        return transition

    def board(self, index: int) -> dict[str, Any] | None:
        board: dict[str, Any] | None = answer(self._worker.board.remote(self._number, index))
        return board

    def close(self) -> None:
        answer(self._worker.close.remote(self._number))


def answer(reference: Any) -> Any:
    """What a worker answers. Raises what it raised, and WorkerLost where it died."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise error.cause from error
    except RayActorError as error:
        raise WorkerLost(
            f"an environment worker died: {error}; start a new attempt from the last checkpoint"
        ) from error

"""UpdateWorker: learns for one policy, from data of its own version only."""

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_core.llm.base_models.progress import Progress, silent
from training_core.types import Group
from workers.actors.worker import Worker
from workers.protocol.spec import PolicyUpdate, Ready, WorkerSpec

if TYPE_CHECKING:
    from workers.transfer.weights import PackedWeights


class UpdateWorker(Worker):
    """Owns the policy's weights and optimiser; what it publishes goes to the rollout workers."""

    def __init__(self, spec: WorkerSpec, progress: Progress = silent) -> None:
        super().__init__(spec, progress)
        self._side: Any = None

    def meeting_place(self) -> tuple[str, int]:
        """An address of this machine, and a port that is free on it, where the policy's update workers can meet."""
        import ray  # a local run has such workers too, and no Ray

        address = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        with socket.socket() as probe:
            probe.bind((address, 0))
            return address, int(probe.getsockname()[1])

    def start(self, resume_from: Path | None, meeting: tuple[str, int] | None = None) -> Ready:
        """Load model, optimiser and (if given) the checkpoint; where there are several, meet the others at `meeting`.

        Raises ModelError, CheckpointError.
        """
        loaded = self._load()
        self._side = self._sides.UpdateSide(self._spec, loaded, meeting)
        version = self._side.resume(resume_from) if resume_from else 0
        return Ready(loaded.model_name, loaded.base, version, [loaded.span])

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """One update. Raises StalePolicy."""
        updated: PolicyUpdate = self._side.update(groups, iteration, version, annotated)
        return updated

    def weights(self, version: int) -> "PackedWeights":
        """The weights as they are now, from here on called `version`."""
        packed: PackedWeights = self._side.publish(version)
        return packed

    def save(self, folder: Path) -> None:
        """Write this policy's part of a checkpoint."""
        self._side.save(folder)

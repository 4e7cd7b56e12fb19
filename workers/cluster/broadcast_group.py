"""BroadcastGroup: the process group through which a policy's first update worker sends weights to its rollout workers."""

import logging
from collections.abc import Sequence

from ray.exceptions import RayActorError

from workers.cluster.answers import answer, exit_of
from workers.cluster.members import Member, wait_for
from workers.cluster.spawner import CONTROL
from workers.protocol.records import TransferFailure

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

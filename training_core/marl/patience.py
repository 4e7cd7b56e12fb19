"""When a run whose environments fail is given up: single failures are data, but nothing is learnt where nothing but failures comes."""

from training_core.errors import EnvironmentFailure
from training_core.marl.collecting import Rollout
from training_core.marl.records import Played

PATIENCE = 3
"""Iterations in a row of nothing but failures, once episodes have come to an end before; by chance few environments may all fail in one."""


class Patience:
    """What has come of the environments so far."""

    def __init__(self) -> None:
        self._left = 0
        """Further iterations of nothing but failures that are borne."""

    def look(self, rollout: Rollout, played: list[Played]) -> None:
        """Another iteration. Nothing but failures: every environment failed, and no episode came to an end; lost workers do not count.

        Raises EnvironmentFailure, at once where no episode has ever come to an end.
        """
        broken = [episode.failure for episode in played if episode.failure and not episode.failure.lost]
        if any(episode.failure is None for episode in played):
            self._left = PATIENCE
        if not rollout.failed.any(0).all() or len(broken) < len(played):
            return
        self._left -= 1
        if self._left <= 0:
            raise EnvironmentFailure(
                f"every environment failed, and no episode came to an end. The first: {broken[0].error}. "
                "Mend the environment, and try it by itself before you launch again"
            )

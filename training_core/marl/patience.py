"""When a run whose environments fail is given up: single failures are data, but nothing is learnt where nothing but failures comes."""

from training_core.errors import EnvironmentFailure
from training_core.marl.collecting import Rollout
from training_core.marl.records import Played

PATIENCE = 3
"""Default of run.failure_patience: by chance few environments may all fail in one iteration."""


class Patience:
    """What has come of the environments so far."""

    def __init__(self, rounds: int = PATIENCE) -> None:
        self._rounds = rounds
        """Iterations in a row of nothing but failures, once episodes have come to an end before, after which the run fails."""
        self._left = 0
        """Further iterations of nothing but failures that are borne."""
        self._broken = 0
        """Failures since an episode came to an end."""

    def look(self, rollout: Rollout, played: list[Played]) -> None:
        """Another iteration. Nothing but failures: every environment failed, and no episode came to an end; lost workers do not count.

        Raises EnvironmentFailure, at once where no episode has ever come to an end; and where environments have failed so often,
        not all of them in one iteration, that each must have several times.
        """
        broken = [episode.failure for episode in played if episode.failure and not episode.failure.lost]
        if any(episode.failure is None for episode in played):
            self._left, self._broken = self._rounds, 0
        self._broken += len(broken)
        everywhere = bool(rollout.failed.any(0).all()) and len(broken) == len(played)
        self._left -= everywhere
        often = self._broken >= rollout.failed.shape[1] * (self._rounds + 1)
        if broken and ((everywhere and self._left <= 0) or often):
            what = "every environment failed" if everywhere else f"environments failed {self._broken} times"
            raise EnvironmentFailure(
                f"{what}, and no episode came to an end. The first: {broken[0].error}. "
                "Mend the environment, and try it by itself before you launch again"
            )

"""When a run with failing environments ends: single failures are tolerated, but a run with only failures cannot learn."""

from training_core.errors import EnvironmentFailure
from training_core.marl.collecting import Rollout
from training_core.marl.records import Played

PATIENCE = 3
"""Default of run.failure_patience: a few environments may all fail in one iteration by chance."""


class Patience:
    """The failures of the environments so far."""

    def __init__(self, rounds: int = PATIENCE) -> None:
        self._rounds = rounds
        """Consecutive iterations with only failures, after at least one finished episode, after which the run fails."""
        self._left = 0
        """Remaining tolerated iterations with only failures."""
        self._broken = 0
        """Failures since the last finished episode."""

    def look(self, rollout: Rollout, played: list[Played]) -> None:
        """Process an iteration. It has only failures if every environment failed and no episode finished; lost
        workers do not count.

        Raises EnvironmentFailure: immediately if no episode has ever finished, and also if there are so many failures
        over several iterations that each environment must have failed several times.
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
                f"{what}, and no episode finished. The first: {broken[0].error}. Fix the environment, and test it "
                "separately before you launch again"
            )

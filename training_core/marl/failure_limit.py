"""When a run with failing environments ends: single failures are tolerated, but a run with only failures cannot learn."""

from training_core.errors import EnvironmentFailure
from training_core.marl.records import EpisodeResult
from training_core.marl.rollouts import Rollout

DEFAULT_ITERATIONS = 3
"""Default of run.failure_patience: a few environments may all fail in one iteration by chance."""


class FailureLimit:
    """The failures of the environments so far."""

    def __init__(self, iterations: int = DEFAULT_ITERATIONS) -> None:
        self._iterations = iterations
        """Consecutive iterations with only failures, after at least one finished episode, after which the run fails."""
        self._remaining = 0
        """Remaining tolerated iterations with only failures."""
        self._failures = 0
        """Failures since the last finished episode."""

    def record(self, rollout: Rollout, episodes: list[EpisodeResult]) -> None:
        """Process an iteration. It has only failures if every environment failed and no episode finished; lost
        workers do not count.

        Raises EnvironmentFailure: immediately if no episode has ever finished, and also if there are so many failures
        over several iterations that each environment must have failed several times.
        """
        failures = [episode.failure for episode in episodes if episode.failure and not episode.failure.lost]
        if any(episode.failure is None for episode in episodes):
            self._remaining, self._failures = self._iterations, 0
        self._failures += len(failures)
        all_failed = bool(rollout.failed.any(0).all()) and len(failures) == len(episodes)
        self._remaining -= all_failed
        many_failures = self._failures >= rollout.failed.shape[1] * (self._iterations + 1)
        if failures and ((all_failed and self._remaining <= 0) or many_failures):
            summary = (
                "every environment failed" if all_failed else f"environments failed {self._failures} times"
            )
            raise EnvironmentFailure(
                f"{summary}, and no episode finished. The first: {failures[0].error}. Fix the environment, and test it "
                "separately before you launch again"
            )

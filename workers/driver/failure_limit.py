"""Runs whose episodes all fail end as failed."""

from collections.abc import Sequence
from dataclasses import dataclass

from training_core.errors import EnvironmentFailure
from workers.protocol import EpisodeFacts

TRAINING = "train"
_ROUNDS = {TRAINING: "iterations"}
_CORRECT = "Correct the agent or the environment, and try it with a dry run before you launch again"


@dataclass
class _Seen:
    """Outcomes of one kind of play."""

    in_a_row: int = 0
    """Number of latest consecutive rounds in which all episodes failed."""
    completed: int = 0
    """Episodes that did not fail."""
    failed: int = 0
    error: str = ""
    """Error of the last recorded failed episode."""


class FailureLimit:
    """Counts rounds in which all episodes failed, by kind of play: training, greedy evaluation, sampled evaluation."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._seen: dict[str, _Seen] = {}

    def record(self, kind: str, episodes: Sequence[EpisodeFacts], rounds: float | None = None) -> None:
        """Add a round. Raises EnvironmentFailure after `rounds` consecutive rounds in which all episodes failed (default: the
        config's number).
        """
        seen = self._seen.setdefault(kind, _Seen())
        failed = [
            episode for episode in episodes if episode.failed or (episode.overlong and not episode.turns)
        ]
        seen.completed += len(episodes) - len(failed)
        if not failed:
            seen.in_a_row = 0 if episodes else seen.in_a_row
            return
        seen.failed, seen.error = seen.failed + len(failed), failed[0].error or failed[0].overlong
        seen.in_a_row = seen.in_a_row + 1 if len(failed) == len(episodes) else 0
        if seen.in_a_row >= (self._rounds if rounds is None else rounds):
            raise EnvironmentFailure(
                f"all episodes failed in {seen.in_a_row} {_ROUNDS.get(kind, 'evaluations')} in a row, {len(failed)} in the last "
                f"one.{_one(seen)}",
                remedy=f"{_CORRECT}; run.failure_patience = {self._rounds} sets the limit of such rounds",
            )

    def finish(self) -> None:
        """Raise EnvironmentFailure if the run never completed an episode of a kind that it played."""
        for kind, seen in self._seen.items():
            if seen.failed and not seen.completed:
                phase = "training" if kind == TRAINING else "evaluation"
                raise EnvironmentFailure(
                    f"all {seen.failed} episodes of {phase} failed.{_one(seen)}", remedy=_CORRECT
                )


def _one(seen: _Seen) -> str:
    return f" One of them: {seen.error}." if seen.error else ""

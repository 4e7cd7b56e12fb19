"""When a run is given up because nothing but failed episodes comes of it. Single failures are data."""

from collections.abc import Sequence
from dataclasses import dataclass

from training_core.errors import EnvironmentFailure
from workers.protocol.records import EpisodeFacts


@dataclass
class _Seen:
    """What has come of one kind of play."""

    in_a_row: int = 0
    """Rounds with nothing but failed episodes, since the last other one."""
    completed: int = 0
    """Episodes that came to an end."""
    failed: int = 0
    error: str = ""
    """Of the last failed episode that was looked at."""


class FailureLimit:
    """Counts rounds of nothing but failed episodes, by kind of play: training, greedy evaluation, sampled evaluation."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._seen: dict[str, _Seen] = {}

    def look(self, kind: str, episodes: Sequence[EpisodeFacts], rounds: float | None = None) -> None:
        """Another round of this kind. Raises EnvironmentFailure after so many rounds in a row of nothing but failures; `rounds`
        takes the place of the config's number.
        """
        seen = self._seen.setdefault(kind, _Seen())
        failed = [episode for episode in episodes if episode.failed]
        seen.completed += len(episodes) - len(failed)
        if not failed:
            seen.in_a_row = 0 if episodes else seen.in_a_row
            return
        seen.failed, seen.error = seen.failed + len(failed), failed[0].error
        seen.in_a_row = seen.in_a_row + 1 if len(failed) == len(episodes) else 0
        if seen.in_a_row >= (self._rounds if rounds is None else rounds):
            raise EnvironmentFailure(
                f"all episodes failed in {seen.in_a_row} {_ROUNDS.get(kind, 'evaluations')} in a row, {len(failed)} in the last "
                f"one. {_one(seen)}; run.failure_patience = {self._rounds} sets how many such rounds are borne"
            )

    def finish(self) -> None:
        """The run is about to end. Raises EnvironmentFailure where it never completed an episode of some kind it played."""
        for kind, seen in self._seen.items():
            if seen.failed and not seen.completed:
                what = "training" if kind == TRAINING else "evaluation"
                raise EnvironmentFailure(f"all {seen.failed} episodes of {what} failed. {_one(seen)}")


TRAINING = "train"
_ROUNDS = {TRAINING: "iterations"}


def _one(seen: _Seen) -> str:
    said = f"One of them: {seen.error}. " if seen.error else ""
    return f"{said}Correct the agent or the environment, and try it with a dry run before you launch again"

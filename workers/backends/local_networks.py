"""The crew of small networks in this process: no Ray, no web."""

from pathlib import Path
from typing import Any

from training_core.config.marl.run import MarlConfig
from workers.actors.marl_worker import MarlWorker
from workers.backends.polling import looking
from workers.protocol.records import Collected, EpisodeKind, Span, Spots, Started, System, Updated


class LocalMarlCrew:
    """See Crew. Before it plays it looks whether the attempt must leave."""

    def __init__(self, config: MarlConfig, attempt: int, spots: Spots) -> None:
        self._attempt = attempt
        self._spots = spots
        self._worker = MarlWorker(config)

    def start(self, resume_from: Path | None) -> Started:
        """See Crew."""
        self._spots.starting()
        return self._worker.start(self._attempt, resume_from)

    def collect(self, iteration: int) -> Collected:
        """See Crew."""
        self._spots.running()
        with looking(self._spots.collecting):
            return self._worker.collect(iteration)

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        """See Crew. No config of small networks asks for it."""
        raise AssertionError("small networks collect and update in turn")

    def update(self, iteration: int) -> Updated:
        """See Crew."""
        return self._worker.update(iteration)

    def publish(self, iteration: int) -> list[Span]:
        """See Crew."""
        return self._worker.publish(iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        """See Crew."""
        self._spots.running()
        with looking(self._spots.evaluating):
            return self._worker.evaluate(iteration, kind, episodes)

    def save(self, folder: Path) -> None:
        """See Crew."""
        self._worker.save(folder)

    def system(self) -> System:
        """See Crew."""
        return self._worker.system()

    def close(self) -> None:
        """See Crew."""
        self._worker.close()

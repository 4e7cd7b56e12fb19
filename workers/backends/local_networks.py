"""The backend of a local run of small networks: everything in this process, without Ray."""

from pathlib import Path
from typing import Any

from training_core.config.marl.run import MarlConfig
from workers.actors.marl_worker import MarlWorker
from workers.backends.polling import looking
from workers.protocol.records import Collected, EpisodeKind, Span, Started, StopChecks, System, Updated


class LocalNetworksBackend:
    """Before it plays it looks whether the attempt must leave."""

    def __init__(self, config: MarlConfig, attempt: int, stop_checks: StopChecks) -> None:
        self._attempt = attempt
        self._stop_checks = stop_checks
        self._worker = MarlWorker(config)

    def start(self, resume_from: Path | None) -> Started:
        self._stop_checks.starting()
        return self._worker.start(self._attempt, resume_from)

    def collect(self, iteration: int) -> Collected:
        self._stop_checks.running()
        with looking(self._stop_checks.collecting):
            return self._worker.collect(iteration)

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        """No config of small networks asks for it."""
        raise AssertionError("small networks collect and update in turn")

    def update(self, iteration: int) -> Updated:
        return self._worker.update(iteration)

    def publish(self, iteration: int) -> list[Span]:
        return self._worker.publish(iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        self._stop_checks.running()
        with looking(self._stop_checks.evaluating):
            return self._worker.evaluate(iteration, kind, episodes)

    def save(self, folder: Path) -> None:
        self._worker.save(folder)

    def system(self) -> System:
        return self._worker.system()

    def close(self) -> None:
        self._worker.close()

"""LocalNetworksBackend: a local run of small networks in this process, without Ray."""

from pathlib import Path

from training_core.config.marl.run import MarlConfig
from workers.actors.marl_worker import MarlWorker
from workers.backends.polling import polling
from workers.protocol.records import Collected, EpisodeKind, Started, StopChecks


class LocalNetworksBackend(MarlWorker):
    """A worker that checks for stop requests before and while it plays."""

    def __init__(self, config: MarlConfig, attempt: int, stop_checks: StopChecks) -> None:
        super().__init__(config, attempt=attempt)
        self._stop_checks = stop_checks

    def start(self, resume_from: Path | None) -> Started:
        """Make networks and environments. Raises Superseded, StoppedBeforeStart, and what MarlWorker raises."""
        self._stop_checks.starting()
        return super().start(resume_from)

    def collect(self, iteration: int) -> Collected:
        """Play one iteration. Raises Superseded."""
        self._stop_checks.running()
        with polling(self._stop_checks.collecting):
            return super().collect(iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        """Play evaluation episodes. Raises Superseded."""
        self._stop_checks.running()
        with polling(self._stop_checks.evaluating):
            return super().evaluate(iteration, kind, episodes)

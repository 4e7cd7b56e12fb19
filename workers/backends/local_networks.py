"""LocalNetworksBackend: a local run of small networks in this process, without Ray."""

from pathlib import Path

from training_core.config.marl.run import MarlConfig
from training_core.llm.base_models.progress import Progress
from workers.actors.marl_worker import MarlWorker
from workers.backends.polling import polling
from workers.protocol.records import Attempt, Collected, EpisodeKind, Started, StopChecks


class LocalNetworksBackend(MarlWorker):
    """A worker that checks for stop requests before and while it plays."""

    def __init__(
        self, attempt: Attempt, config: MarlConfig, stop_checks: StopChecks, progress: Progress
    ) -> None:
        """There are no base models, whose loading `progress` would report."""
        super().__init__(config, attempt=attempt.number)
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

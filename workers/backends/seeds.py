"""The backends of several seeds of one config in one process: a thread per run, of which one works at a time."""

import time
from collections.abc import Sequence
from threading import Condition, Event, Lock
from typing import TYPE_CHECKING, Any

from training_core.config.marl import MarlConfig
from training_core.marl.records import Collection
from workers.actors.machine import prepare_process
from workers.protocol.records import Attempt, StopChecks

if TYPE_CHECKING:
    from training_core.marl.trainer import MarlTrainer
from pathlib import Path

from training_core.llm.base_models.folder_creation import Progress
from workers.actors.marl_worker import MarlWorker
from workers.backends.polling import polling
from workers.protocol.records import Collected, EpisodeKind, Started


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


class SeedTurns:
    """The shared trainers. The threads of its runs work in turn, each inside `turn`; an iteration is played for all of them
    together once every run that has not left waits for its own.
    """

    def __init__(self, configs: Sequence[MarlConfig]) -> None:
        """Raises ConfigError if the seeds cannot be trained together."""
        prepare_process(configs[0].resources.threads)
        from training_core.marl.seed_group import SeedGroup  # imports torch

        self.group = SeedGroup(configs)
        self.turn = Lock()
        self._changed = Condition(self.turn)
        self.over = Event()
        """Set when all runs have left."""
        self._present = set(range(len(configs)))
        self._waiting: dict[int, int] = {}
        """Iteration by run."""
        self._played: dict[int, Any] = {}
        """By run: (rollout, episodes, start, seconds), or the exception that play raised."""

    def play(self, index: int, iteration: int) -> tuple[Collection, float, float]:
        """Play an iteration of a run, inside `turn`: its episodes, when play began, and its seconds. Raises EnvironmentFailure."""
        self._waiting[index] = iteration
        self._play_if_complete()
        self._changed.wait_for(lambda: index in self._played)
        played = self._played.pop(index)
        if isinstance(played, Exception):
            raise played
        (rollout, episodes), start, seconds = played
        return self.group.trainers[index].accept(rollout, episodes), start, seconds

    def leave(self, index: int) -> None:
        """End a run, inside `turn`: the others no longer wait for it."""
        self._present.discard(index)
        if not self._present:
            self.over.set()
        self._play_if_complete()

    def _play_if_complete(self) -> None:
        if not self._present or self._waiting.keys() != self._present:
            return
        start = time.time()
        iterations = {index: self._waiting[index] for index in sorted(self._waiting)}
        self._waiting.clear()
        try:
            played = self.group.play(iterations)
            seconds = time.time() - start
            self._played.update({index: (own, start, seconds) for index, own in played.items()})
        except Exception as error:
            self._played.update(dict.fromkeys(iterations, error))
        self._changed.notify_all()


class SeedBackend(LocalNetworksBackend):
    """The backend of one of the runs."""

    def __init__(
        self, attempt: Attempt, config: MarlConfig, stop_checks: StopChecks, turns: SeedTurns, index: int
    ) -> None:
        super().__init__(attempt, config, stop_checks, lambda done, text: None)
        self._shared, self._index = turns, index

    def _make_trainer(self) -> "MarlTrainer":
        return self._shared.group.trainers[self._index]

    def _play(self, iteration: int) -> tuple[Collection, float, float]:
        return self._shared.play(self._index, iteration)

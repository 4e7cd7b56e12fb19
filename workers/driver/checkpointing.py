"""The driver's part of checkpoints: when one is written, which is best, which are deleted. Handles no tensors.

Layout on disk: training_core/checkpoints.py, and training_core/llm/learning/policy_checkpoint.py for a policy's part.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training_core.checkpoints import iteration_of, name_of, read_state, retain, size_of, sweep, writing
from training_core.config.experiment import ExperimentConfig
from workers.driver.run_events import RunEvents
from workers.protocol.records import TrainingBackend
from workers.storage.run_folder import RunFolder


@dataclass(frozen=True)
class Best:
    """The checkpoint with the highest value of checkpoint.best_of."""

    iteration: int
    value: float


class CheckpointKeeper:
    """Checkpoints of one run, shared by all of its attempts."""

    def __init__(self, config: ExperimentConfig, folder: RunFolder) -> None:
        self._config = config
        self._folder = folder
        self._best: list[Best] = []
        """The `checkpoint.keep_best` best checkpoints, best first."""
        self._saved = time.monotonic()
        """Time of the last checkpoint, or of the attempt's start."""
        self.latest = 0
        """Iteration of the checkpoint that was last written or resumed from; 0 if there is none."""
        self.admission: dict[str, Any] | None = None
        """State of task admission if play runs ahead of the update (see Ahead)."""

    def recall(self, resume_from: Path | None, run_events: RunEvents, *, forks: bool = False) -> int:
        """Restore progress from a checkpoint. Returns the number of iterations completed by then. Raises CheckpointError.

        A fork has no best checkpoint yet: the original run's checkpoints are not its own.
        """
        sweep(self._folder.checkpoints)  # incomplete checkpoints of attempts that died while writing
        if resume_from is None:
            return 0
        state = read_state(resume_from)
        for name, value in state["progress"].items():
            setattr(run_events.progress, name, int(value))
        self.admission = state.get("admission")
        self._best = [] if forks else _read_best(state["best"])
        self.latest = int(state["iteration"])
        return self.latest

    def due(self, iteration: int) -> bool:
        """Whether to write a checkpoint after this iteration: by count, by epochs, by elapsed time, or because it is the last."""
        seconds = self._config.checkpoint.every_seconds
        late = seconds > 0 and time.monotonic() - self._saved >= seconds
        return late or scheduled(self._config, iteration)

    def save(self, backend: TrainingBackend, run_events: RunEvents, iteration: int) -> None:
        """Write a checkpoint, then delete those that retention no longer includes. Raises CheckpointError."""
        value = run_events.measured(self._config.checkpoint.best_of, iteration)
        best = value is not None and (not self._best or value > self._best[0].value)
        if value is not None:  # an equal value is no improvement: the earlier one stays before it
            others = [item for item in self._best if item.iteration != iteration]
            ordered = sorted([*others, Best(iteration, value)], key=lambda item: -item.value)
            self._best = ordered[: self._config.checkpoint.keep_best]
        policies = self._config.trained_policies
        with writing(self._folder.checkpoints, iteration, self._state(run_events), policies) as draft:
            backend.save(draft)
        folder = self._folder.checkpoints / name_of(iteration)
        run_events.checkpointed(iteration, self._relative(folder), size_of(folder), best=best)
        self._retain(run_events, iteration)
        self._saved, self.latest = time.monotonic(), iteration

    def _state(self, run_events: RunEvents) -> dict[str, Any]:
        return {
            "seed": self._config.run.seed,
            "policies": list(self._config.trained_policies),
            "progress": asdict(run_events.progress),
            "best": [asdict(item) for item in self._best],
            "admission": self.admission,
        }

    def _retain(self, run_events: RunEvents, iteration: int) -> None:
        """Delete all checkpoints except the latest and the best ones."""
        best = {item.iteration for item in self._best}
        for folder in retain(self._folder.checkpoints, self._config.checkpoint.keep, best, until=iteration):
            run_events.removed(iteration_of(folder.name), self._relative(folder))

    def _relative(self, folder: Path) -> str:
        return folder.relative_to(self._folder.root).as_posix()


def scheduled(config: ExperimentConfig, iteration: int) -> bool:
    """Whether an iteration has a checkpoint regardless of elapsed time: by count, by epochs, or because it is the last."""
    every = config.checkpoint.every
    counted = every > 0 and iteration % every == 0
    ends_epochs = config.epochs_after(iteration) > config.epochs_after(iteration - 1)
    return counted or iteration == config.run.iterations or ends_epochs


def _read_best(stored: Any) -> list[Best]:
    """Best checkpoints from a checkpoint's state; earlier versions stored a single one or none."""
    several = stored if isinstance(stored, list) else [stored] if stored else []
    return [Best(**item) for item in several]

"""The driver's part of checkpoints: when one is written, which is best, which are deleted. No tensors here.

How they lie on disk: training_core/checkpoints.py, and training_core/llm/learning/policy_checkpoint.py for a policy's part.
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
        """The checkpoint.keep_best ones, best first."""
        self._saved = time.monotonic()
        """When the last one was written, or this attempt began."""
        self.latest = 0
        """The iteration of the last one that was written, or gone on from; 0 for none."""
        self.admission: dict[str, Any] | None = None
        """Which tasks have begun, where play runs ahead of the update (see Ahead)."""

    def recall(self, resume_from: Path | None, run_events: RunEvents, *, forks: bool = False) -> int:
        """Remember what the run knew at a checkpoint; the iterations completed then. Raises CheckpointError.

        A fork has no best checkpoint yet: that of the run it comes from is not among its own.
        """
        sweep(self._folder.checkpoints)  # what an attempt left that died while it wrote
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
        """Whether one is to be written after this iteration: by count, by epochs, by the clock, or because it is the last."""
        seconds = self._config.checkpoint.every_seconds
        late = seconds > 0 and time.monotonic() - self._saved >= seconds
        return late or scheduled(self._config, iteration)

    def save(self, backend: TrainingBackend, run_events: RunEvents, iteration: int) -> None:
        """Write a checkpoint, then delete what is no longer wanted. Raises CheckpointError."""
        value = run_events.measured(self._config.checkpoint.best_of, iteration)
        best = value is not None and (not self._best or value > self._best[0].value)
        if value is not None:  # an equal value is no improvement: the earlier one stays before it
            known = [item for item in self._best if item.iteration != iteration]
            ordered = sorted([*known, Best(iteration, value)], key=lambda item: -item.value)
            self._best = ordered[: self._config.checkpoint.keep_best]
        with writing(self._folder.checkpoints, iteration, self._state(run_events)) as draft:
            backend.save(draft)
        place = self._folder.checkpoints / name_of(iteration)
        run_events.checkpointed(iteration, self._relative(place), size_of(place), best=best)
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
        """Keep the latest and the best."""
        best = {item.iteration for item in self._best}
        for place in retain(self._folder.checkpoints, self._config.checkpoint.keep, best, until=iteration):
            run_events.removed(iteration_of(place.name), self._relative(place))

    def _relative(self, place: Path) -> str:
        return place.relative_to(self._folder.root).as_posix()


def scheduled(config: ExperimentConfig, iteration: int) -> bool:
    """Whether an iteration has a checkpoint whatever the clock says: by count or by epochs, and the last one."""
    wanted = config.checkpoint
    counted = wanted.every > 0 and iteration % wanted.every == 0
    ends_epochs = config.epochs_after(iteration) > config.epochs_after(iteration - 1)
    return counted or iteration == config.run.iterations or ends_epochs


def _read_best(kept: Any) -> list[Best]:
    """As checkpoints keep it; earlier ones kept a single one, or none."""
    several = kept if isinstance(kept, list) else [kept] if kept else []
    return [Best(**item) for item in several]

"""The driver's part of checkpoints: when one is written, which is best, which are deleted. No tensors here.

How they lie on disk: training_core/checkpoints.py, and training_core/llm/learning/saving.py for a policy's part.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training_core.checkpoints import iteration_of, name_of, read_state, retain, size_of, sweep, writing
from training_core.config.run import RunConfig
from workers.launch.run_folder import RunFolder
from workers.loops.journal import Journal
from workers.loops.records import Crew


@dataclass(frozen=True)
class Best:
    """The checkpoint with the highest value of checkpoint.best_of."""

    iteration: int
    value: float


class CheckpointKeeper:
    """Checkpoints of one run, shared by all of its attempts."""

    def __init__(self, config: RunConfig, folder: RunFolder) -> None:
        self._config = config
        self._folder = folder
        self._best: Best | None = None
        self.admission: dict[str, Any] | None = None
        """Which tasks have begun, where play runs ahead of the update (see Ahead)."""

    def recall(self, resume_from: Path | None, journal: Journal, *, forks: bool = False) -> int:
        """Remember what the run knew at a checkpoint; the iterations completed then. Raises CheckpointError.

        A fork has no best checkpoint yet: that of the run it comes from is not among its own.
        """
        sweep(self._folder.checkpoints)  # what an attempt left that died while it wrote
        if resume_from is None:
            return 0
        state = read_state(resume_from)
        for name, value in state["progress"].items():
            setattr(journal.progress, name, int(value))
        self.admission = state.get("admission")
        self._best = Best(**state["best"]) if state["best"] and not forks else None
        return int(state["iteration"])

    def save(self, crew: Crew, journal: Journal, iteration: int) -> None:
        """Write a checkpoint, then delete what is no longer wanted. Raises CheckpointError."""
        value = journal.measured(self._config.checkpoint.best_of, iteration)
        best = value is not None and (self._best is None or value > self._best.value)
        if best and value is not None:
            self._best = Best(iteration, value)
        with writing(self._folder.checkpoints, iteration, self._state(journal)) as draft:
            crew.save(draft)
        place = self._folder.checkpoints / name_of(iteration)
        journal.checkpointed(iteration, self._relative(place), size_of(place), best=best)
        self._retain(journal, iteration)

    def _state(self, journal: Journal) -> dict[str, Any]:
        return {
            "seed": self._config.run.seed,
            "policies": list(self._config.trained_policies),
            "progress": asdict(journal.progress),
            "best": asdict(self._best) if self._best else None,
            "admission": self.admission,
        }

    def _retain(self, journal: Journal, iteration: int) -> None:
        """Keep the latest and the best."""
        best = self._best.iteration if self._best else None
        for place in retain(self._folder.checkpoints, self._config.checkpoint.keep, best, until=iteration):
            journal.removed(iteration_of(place.name), self._relative(place))

    def _relative(self, place: Path) -> str:
        return place.relative_to(self._folder.root).as_posix()

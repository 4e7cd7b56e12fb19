"""The driver's part of checkpoints: which one an attempt starts from, when one is written, which is best, which are deleted.

Handles no tensors. Layout on disk: training_core/checkpoints.py, and training_core/llm/learning/policy_checkpoint.py for a policy's part.
"""

import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training_core.checkpoints import (
    checkpoints,
    damage,
    has_hashes,
    iteration_of,
    name_of,
    read_state,
    retain,
    size_of,
    sweep,
    writing,
)
from training_core.config.experiment import ExperimentConfig
from training_core.errors import CheckpointError
from workers.driver.early_stopping import EarlyStopping
from workers.driver.run_events import RunEvents
from workers.protocol import Attempt, TrainingBackend
from workers.storage.folders import RunFolder

log = logging.getLogger(__name__)


def starting_point(attempt: Attempt, run_events: RunEvents) -> Path | None:
    """The checkpoint to start from, verified against its manifest; None if the attempt starts from the base models.

    A damaged checkpoint of the run itself is reported. With `attempt.fall_back` the newest earlier intact one replaces it.
    Raises CheckpointError if none is intact, or if the requested one is damaged and `fall_back` is off.
    """
    requested = attempt.start_from
    if requested is None:
        return None
    problem = damage(requested)
    if not problem:
        _log_missing_hashes(requested)
        return requested
    if attempt.forks:
        run_events.origin_damaged(problem)
        raise CheckpointError(
            f"{_named(requested)}, which this run starts from, is damaged: {problem}",
            remedy="start from another one",
        )
    return _earlier(attempt, requested, problem, run_events)


def _earlier(attempt: Attempt, requested: Path, problem: str, run_events: RunEvents) -> Path:
    """The newest intact checkpoint before `requested`, which is damaged. Raises CheckpointError."""
    damaged = {requested: problem}
    _report(attempt, requested, problem, run_events)
    for checkpoint in _before(requested):
        if problem := damage(checkpoint):
            damaged[checkpoint] = problem
            _report(attempt, checkpoint, problem, run_events)
            continue
        damages = "; ".join(f"{_named(folder)} is damaged: {text}" for folder, text in damaged.items())
        if not attempt.fall_back:
            raise CheckpointError(f"{damages}; {_named(checkpoint)} is whole", remedy="resume from that one")
        _log_missing_hashes(checkpoint)
        run_events.fell_back(checkpoint, f"{damages}; resumed from iteration {iteration_of(checkpoint.name)}")
        return checkpoint
    damages = "; ".join(f"{_named(folder)}: {text}" for folder, text in damaged.items())
    raise CheckpointError(
        f"no checkpoint to resume from is whole ({damages})",
        remedy="restore their files, or delete them to start the run from its beginning",
    )


def _before(requested: Path) -> list[Path]:
    """Checkpoints of earlier iterations in the same folder, newest first."""
    try:
        iteration = iteration_of(requested.name)
    except CheckpointError:
        return []  # a folder with another name, from the command line
    folders = checkpoints(requested.parent)
    return [folders[number] for number in sorted(folders, reverse=True) if number < iteration]


def _report(attempt: Attempt, checkpoint: Path, problem: str, run_events: RunEvents) -> None:
    """Report a damaged checkpoint of this run."""
    folder = RunFolder(attempt.folder)
    if checkpoint.parent == folder.checkpoints:
        path = checkpoint.relative_to(folder.root).as_posix()
        run_events.damaged(iteration_of(checkpoint.name), path, problem)


def _log_missing_hashes(checkpoint: Path) -> None:
    if not has_hashes(checkpoint):
        log.info(
            "%s was written by an earlier version of Troupe without hashes: only the sizes of its files were compared",
            _named(checkpoint),
        )


def _named(checkpoint: Path) -> str:
    try:
        return f"the checkpoint of iteration {iteration_of(checkpoint.name)}"
    except CheckpointError:
        return f"the checkpoint {checkpoint.name}"


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
        self.early_stopping = EarlyStopping(config)
        self.admission: dict[str, Any] | None = None
        """State of task admission if play runs ahead of the update (see Ahead)."""
        self.evaluating: int | None = None
        """Iteration whose weights the evaluator plays with; None if it is idle."""
        self.unevaluated = False
        """Whether the run resumes from a checkpoint whose evaluation was lost."""

    def recall(self, resume_from: Path | None, run_events: RunEvents, *, forks: bool = False) -> int:
        """Restore progress from a checkpoint. Returns the number of iterations completed by then. Raises CheckpointError.

        A fork has no best checkpoint and no highest value yet: the original run's are not its own.
        """
        sweep(self._folder.checkpoints)  # incomplete checkpoints of attempts that died while writing
        if resume_from is None:
            return 0
        state = read_state(resume_from)
        for name, value in state["progress"].items():
            setattr(run_events.progress, name, int(value))
        self.admission = state.get("admission")
        if not forks:
            self._best = _read_best(state["best"])
            self.early_stopping.restore(state.get("early_stopping", {}))
        self.latest = int(state["iteration"])
        self.unevaluated = not forks and state.get("evaluating") == self.latest
        return self.latest

    def due(self, iteration: int) -> bool:
        """Whether to write a checkpoint after this iteration: by count, by epochs, by elapsed time, or because it is the last."""
        seconds = self._config.checkpoint.every_seconds
        late = seconds > 0 and time.monotonic() - self._saved >= seconds
        return late or scheduled(self._config, iteration)

    def save(self, backend: TrainingBackend, run_events: RunEvents, iteration: int) -> None:
        """Write a checkpoint, then delete those that retention no longer includes. Raises CheckpointError."""
        best = self._is_best(run_events, iteration)
        policies = self._config.trained_policies
        with writing(self._folder.checkpoints, iteration, self._state(run_events), policies) as draft:
            backend.save(draft)
        self._report(run_events, iteration, best=best)
        self._retain(run_events, iteration)
        self._saved, self.latest = time.monotonic(), iteration

    def rank(self, run_events: RunEvents, iteration: int) -> None:
        """Rank the checkpoint of an iteration, if there is one, by a metric that was measured after it was written."""
        if iteration <= self.latest and (self._folder.checkpoints / name_of(iteration)).is_dir():
            self._report(run_events, iteration, best=self._is_best(run_events, iteration))
            self._retain(run_events, self.latest)

    def _is_best(self, run_events: RunEvents, iteration: int) -> bool:
        """Add an iteration to the best ones if it belongs to them. Returns whether it is the best of all."""
        value = run_events.measured(self._config.checkpoint.best_of, iteration)
        if value is None:
            return False
        best = not self._best or value > self._best[0].value
        others = [item for item in self._best if item.iteration != iteration]
        # an equal value is no improvement: the earlier one stays before it
        ordered = sorted([*others, Best(iteration, value)], key=lambda item: -item.value)
        self._best = ordered[: self._config.checkpoint.keep_best]
        return best

    def _report(self, run_events: RunEvents, iteration: int, *, best: bool) -> None:
        folder = self._folder.checkpoints / name_of(iteration)
        run_events.checkpointed(iteration, self._relative(folder), size_of(folder), best=best)

    def _state(self, run_events: RunEvents) -> dict[str, Any]:
        return {
            "seed": self._config.run.seed,
            "policies": list(self._config.trained_policies),
            "progress": asdict(run_events.progress),
            "best": [asdict(item) for item in self._best],
            "admission": self.admission,
            "early_stopping": self.early_stopping.state(),
            "evaluating": self.evaluating,
        }

    def _retain(self, run_events: RunEvents, iteration: int) -> None:
        """Delete all checkpoints except the latest and the best ones."""
        best = {item.iteration for item in self._best} | {self.evaluating or 0}
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

"""PolicyWorker: generates for one policy and updates it in one process, with one instance of the model."""

import sys
from pathlib import Path

from training_core.llm.base_models.progress import Progress
from workers.actors.rollout_worker import RolloutWorker
from workers.actors.update_worker import UpdateWorker
from workers.actors.worker import ready
from workers.protocol.records import Span
from workers.protocol.spec import Address, Ready, WorkerSpec


def print_progress(done: float, text: str) -> None:
    """Print progress to standard output, which Ray forwards to the job's log."""
    sys.stdout.write(f"base model, {done:.0%}: {text}\n")
    sys.stdout.flush()


class PolicyWorker(RolloutWorker, UpdateWorker):
    """A PolicyProxy by itself: local runs call it directly, runs on Ray through an actor."""

    def __init__(self, spec: WorkerSpec, progress: Progress = print_progress) -> None:
        super().__init__(spec, progress)

    def start(self, resume_from: Path | None, address: Address | None = None) -> Ready:
        """Load the model. A policy without a trained role gets no learner, but may have weights in the checkpoint.

        Raises ModelError, CheckpointError.
        """
        loaded = self._load()
        self._open_engine(loaded)
        version = 0
        if self._spec.policy in self._spec.config.trained_policies:
            self._open_learner(loaded)
            version = self._resume(resume_from) if resume_from else 0
            self.engine.version = version
        elif resume_from:
            version = self._restore(resume_from)
        return ready(loaded, version)

    def publish(self, version: int, iteration: int) -> list[Span]:
        """Set the version of engine and learner. They share one model: nothing is copied."""
        self.version = version
        self.engine.version = version
        return []

    def save(self, folder: Path) -> None:
        """Write this policy into a checkpoint. Raises CheckpointError."""
        if self.learner is not None:
            UpdateWorker.save(self, folder)
        else:
            RolloutWorker.save(self, folder)

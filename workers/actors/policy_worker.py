"""PolicyWorker: generates for one policy and updates it in one process, in turn."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from training_core.llm.base_models.folder_creation import Progress
from training_core.llm.generation.base import SleepingEngine
from training_core.types import Group
from workers.actors.rollout_worker import RolloutWorker
from workers.actors.update_worker import UpdateWorker
from workers.actors.worker import ready
from workers.protocol.records import Span
from workers.protocol.spec import Address, PolicyUpdate, Ready, WorkerSpec


def print_progress(done: float, text: str) -> None:
    """Print progress to standard output, which Ray forwards to the job's log."""
    sys.stdout.write(f"base model, {done:.0%}: {text}\n")
    sys.stdout.flush()


class PolicyWorker(RolloutWorker, UpdateWorker):
    """A PolicyProxy by itself: local runs call it directly, runs on Ray through an actor.

    The engine and the learner share one instance of the model, or the engine has its own copy of the weights: then it sleeps during
    updates, so that they can use its memory.
    """

    def __init__(self, spec: WorkerSpec, progress: Progress = print_progress) -> None:
        super().__init__(spec, progress)
        self._engine_has_copy = spec.section.engine.weights == "copied"

    def start(self, resume_from: Path | None, address: Address | None = None) -> Ready:
        """Load the model. A policy without a trained role gets no learner, but may have weights in the checkpoint.

        Raises ModelError, CheckpointError.
        """
        loaded = self._load()
        trained = self._spec.policy in self._spec.config.trained_policies
        self._open_engine(loaded, sleeps=trained and self._engine_has_copy)
        version = 0
        if trained:
            self._open_learner(loaded)
            version = self._resume(resume_from) if resume_from else 0
            if version > 0:
                self._share_weights(version)
        elif resume_from:
            version = self._restore(resume_from)
        return ready(loaded, version)

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Update once on data of `version`. Raises StalePolicy."""
        with self._engine_asleep():
            return super().update(groups, iteration, version, annotated)

    def publish(self, version: int, iteration: int) -> list[Span]:
        """Set the version of engine and learner, and copy the weights if the engine has its own."""
        start = time.time()
        self.version = version
        self._share_weights(version)
        return [self._sync_span(iteration, start)] if self._engine_has_copy else []

    def save(self, folder: Path) -> None:
        """Write this policy into a checkpoint. Raises CheckpointError."""
        if self.learner is not None:
            UpdateWorker.save(self, folder)
        else:
            RolloutWorker.save(self, folder)

    def _share_weights(self, version: int) -> None:
        """Have the engine generate with the learner's weights as `version`."""
        if self._engine_has_copy:
            self._replace_weights(version, self.learner.weights)
        else:
            self.engine.version = version

    @contextmanager
    def _engine_asleep(self) -> Iterator[None]:
        """Context in which an engine with its own weights sleeps, and requests wait."""
        if not self._engine_has_copy:
            yield
            return
        engine = cast("SleepingEngine", self.engine)
        with self._gate.closed():
            engine.sleep()
            try:
                yield
            finally:
                engine.wake_up()

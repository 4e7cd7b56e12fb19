"""PolicyWorker: one policy's rollout and update side in one process, on one instance of the model."""

import sys
from pathlib import Path
from typing import Any

from training_core.llm.base_models.progress import Progress
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Group, Prompt
from workers.actors.worker import Worker
from workers.protocol.records import Span
from workers.protocol.spec import Generated, PolicyUpdate, Ready, WorkerSpec


def told(done: float, text: str) -> None:
    """Progress as lines on standard output, which Ray carries to the job's log."""
    sys.stdout.write(f"base model, {done:.0%}: {text}\n")
    sys.stdout.flush()


class PolicyWorker(Worker):
    """A PolicyProxy by itself: what a local run uses directly and a Ray run through an actor."""

    def __init__(self, spec: WorkerSpec, progress: Progress = told) -> None:
        super().__init__(spec, progress)
        self._rollout: Any = None
        self._update: Any = None

    def start(self, resume_from: Path | None) -> Ready:
        """A policy that no trained role uses has no optimiser, but may have weights of a checkpoint."""
        loaded = self._load()
        self._rollout = self._sides.RolloutSide(self._spec, loaded)
        version = 0
        if self._spec.policy in self._spec.config.trained_policies:
            self._update = self._sides.UpdateSide(self._spec, loaded)
            version = self._update.resume(resume_from) if resume_from else 0
            self._rollout.engine.version = version
        elif resume_from:
            version = self._rollout.recall(resume_from)
        return Ready(loaded.model_name, loaded.base, version, [loaded.span])

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        generated: Generated = self._rollout.generate(prompts, settings, version)
        return generated

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        updated: PolicyUpdate = self._update.update(groups, iteration, version, annotated)
        return updated

    def publish(self, version: int, iteration: int) -> list[Span]:
        """Both sides share one model: nothing is copied."""
        self._update.version = version
        self._rollout.engine.version = version
        return []

    def save(self, folder: Path) -> None:
        (self._update or self._rollout).save(folder)

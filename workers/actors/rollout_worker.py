"""RolloutWorker: generates for one policy, always with the version of the weights that was asked for."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_core.llm.generation.base import SamplingSettings
from training_core.types import Prompt
from workers.actors.worker import Worker
from workers.protocol.records import Span
from workers.protocol.spec import Generated, Ready, WorkerSpec

if TYPE_CHECKING:
    from workers.transfer.weights import PackedWeights


class RolloutWorker(Worker):
    """Holds a copy of the policy's weights that the update worker sends."""

    def __init__(self, spec: WorkerSpec) -> None:
        super().__init__(spec)
        self._side: Any = None
        self._stands = threading.Event()
        """Set when `start` has ended: weights may be sent while it is at work."""

    def start(self, resume_from: Path | None) -> Ready:
        """Load the base model. Trained weights come by `load_weights`; a frozen policy's may be in a checkpoint.

        Raises ModelError, CheckpointError.
        """
        try:
            loaded = self._load()
            self._side = self._sides.RolloutSide(self._spec, loaded)
            version = self._side.recall(resume_from) if resume_from else 0
        finally:  # who waits for it to stand must learn that it does not
            self._stands.set()
        return Ready(loaded.model_name, loaded.base, version, [loaded.span])

    def save(self, folder: Path) -> None:
        """Write a frozen policy's part of a checkpoint."""
        self._side.save(folder)

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Sample answers. Raises StalePolicy, EngineFailure."""
        generated: Generated = self._side.generate(prompts, settings, version)
        return generated

    def load_weights(self, packed: "PackedWeights", iteration: int) -> Span:
        """Take over a version of the weights, before what waits to be generated."""
        self._stands.wait()
        span: Span = self._side.load_weights(packed, iteration)
        return span

    def pause_generation(self) -> None:
        """Stop generating until `continue_generation`; returns when it has."""
        self._side.pause_generation()

    def continue_generation(self) -> None:
        """Go on with what was interrupted."""
        self._side.continue_generation()

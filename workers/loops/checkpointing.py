"""The driver's part of checkpoints: when one is complete, which is best, which are deleted. No tensors here."""

from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from workers.launch.run_folder import RunFolder
from workers.loops.journal import Journal
from workers.loops.records import Crew


class CheckpointKeeper:
    """Checkpoints of one run, shared by all of its attempts."""

    def __init__(self, config: RunConfig, folder: RunFolder) -> None:
        self._config = config
        self._folder = folder

    def recall(self, resume_from: Path | None, journal: Journal) -> int:
        return 0

    def save(self, crew: Crew, journal: Journal, iteration: int) -> None:
        return

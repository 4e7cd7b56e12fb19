"""What a short job is given, and how it tells of itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from training_core.config.experiment import ExperimentConfig
from workers.storage.job_folder import JobFolder

Config = TypeVar("Config", bound=ExperimentConfig)


@dataclass(frozen=True)
class JobContext(Generic[Config]):
    """One job: under which config, from which weights, with which wishes."""

    config: Config
    folder: JobFolder
    home: Path
    """TROUPE_HOME, where base models are cached."""
    parameters: Mapping[str, Any]
    checkpoint: Path | None = None
    other: Path | None = None
    """The second checkpoint of a match."""

    def progress(self, done: float, text: str) -> None:
        """How far it is (0 to 1), and with what."""
        self.folder.write("progress", {"done": min(max(done, 0.0), 1.0), "text": text})

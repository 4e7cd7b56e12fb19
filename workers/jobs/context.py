"""Parameters of a short job, and its progress reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from training_core.config.experiment import ExperimentConfig
from workers.storage.job_folder import JobFolder

Config = TypeVar("Config", bound=ExperimentConfig)


@dataclass(frozen=True)
class JobContext(Generic[Config]):
    """One short job: its config, weights and parameters."""

    config: Config
    folder: JobFolder
    home: Path
    """TROUPE_HOME, where base models are cached."""
    parameters: Mapping[str, Any]
    checkpoint: Path | None = None
    other: Path | None = None
    """The second checkpoint of a match."""

    def progress(self, done: float, text: str) -> None:
        """Report the share done (0 to 1) and the current step."""
        self.folder.write("progress", {"done": min(max(done, 0.0), 1.0), "text": text})

"""What a short job is given, and how it tells of itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from workers.launch.job_folder import JobFolder


@dataclass(frozen=True)
class JobContext:
    """One job: under which config, from which weights, with which wishes."""

    config: RunConfig
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

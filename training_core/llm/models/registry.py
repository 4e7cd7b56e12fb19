"""Models by name: "tiny" is made here; anything else is a folder or a hub id."""

from collections.abc import Callable
from pathlib import Path

from training_core.config.environments import Environment
from training_core.llm.models.places import model_folder
from training_core.llm.models.progress import Progress, silent
from training_core.llm.models.tiny import ensure_tiny

MADE_HERE: dict[str, Callable[[Environment, Path, Progress], Path]] = {"tiny": ensure_tiny}


def resolve_model(name: str, environment: Environment, home: Path, progress: Progress = silent) -> Path | str:
    """Folder or hub id that a policy's `model` stands for; a model that is made here is made first. Raises ModelError."""
    if name in MADE_HERE:
        return MADE_HERE[name](environment, home, progress)
    return model_folder(name, home) or name

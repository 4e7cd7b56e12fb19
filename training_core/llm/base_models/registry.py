"""Models by name: created by Troupe, shipped by a package, added to TROUPE_HOME, a folder, or a hub id."""

from collections.abc import Callable
from pathlib import Path

from training_core.config.run import Environment
from training_core.llm.base_models.model_paths import model_folder
from training_core.llm.base_models.packaged import PACKAGED_MODELS, ensure_packaged, packaged_folder
from training_core.llm.base_models.progress import Progress, silent
from training_core.llm.base_models.tiny import ensure_tiny, tiny_folder
from training_core.served import served

CREATED_MODELS: dict[str, Callable[[Environment, Path, Progress], Path]] = {"tiny": ensure_tiny}


def resolve_model(name: str, environment: Environment, home: Path, progress: Progress = silent) -> Path | str:
    """Folder or hub id of a policy's `model`; a model that Troupe creates or converts is created first.

    Raises ModelError if it cannot be created.
    """
    if name in CREATED_MODELS:
        return CREATED_MODELS[name](environment, home, progress)
    if name in PACKAGED_MODELS:
        return ensure_packaged(name, home, progress)
    source = _gguf_path(name) or model_folder(name, home)
    if source is None:
        return name
    from training_core.llm.base_models.gguf import ensure_converted, gguf_file  # imports torch

    file = gguf_file(source)
    return ensure_converted(file, home, progress) if file else source


def created_folder(name: str, environment: Environment, home: Path) -> Path | None:
    """Folder of a model that is created or converted on first use, whether it exists yet or not; None for others."""
    if name in CREATED_MODELS:
        return tiny_folder(environment, home)
    return packaged_folder(name, home) if name in PACKAGED_MODELS else None


def _gguf_path(name: str) -> Path | None:
    """A GGUF file given by its path; under a server only an absolute path is accepted."""
    path = Path(name) if served() else Path(name).expanduser()
    permitted = path.is_absolute() or not served()
    return path if permitted and path.suffix == ".gguf" and path.is_file() else None

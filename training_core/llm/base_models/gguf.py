"""Conversion of GGUF files (the format of llama.cpp) into Hugging Face folders.

transformers reads the tokenizer with its chat template and dequantises every tensor. The folder contains the weights
in bfloat16, so it loads in a second and without the `gguf` package.
"""

import struct
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from training_core.errors import ModelError
from training_core.llm.base_models.folder_creation import create_once
from training_core.llm.base_models.packaged import MODELS, file_sha256
from training_core.llm.base_models.progress import Progress, silent

SUFFIX = ".gguf"
_REFUSALS = (OSError, ValueError, KeyError, RuntimeError, ImportError, struct.error)
"""Exceptions of transformers for a damaged file, an unknown architecture, or a missing `gguf` package."""


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
        raise ModelError(f"{source} contains several GGUF files ({names}); give the path of one of them")
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
            f"cannot read the GGUF file {file.name}: {first}. It needs `pip install gguf` and an architecture that "
            "transformers reads from GGUF (Llama, Qwen2, Qwen3, Mistral, Gemma and others)"
        ) from error
    if tokenizer.chat_template is None:
        raise ModelError(f"{file.name} has no chat template; use the GGUF file of an instruction-tuned model")
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


def _without_quantisation(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights with a config without quantisation, because transformers refuses to save a quantised model."""
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

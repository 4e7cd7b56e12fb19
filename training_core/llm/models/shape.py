"""The sizes of a model, read from its folder without loading it (and without torch).

config.json contains the sizes, and the headers of the safetensors files every tensor's shape, so parameters are
counted exactly. The format: 8 bytes with the header's length N (little endian), then N bytes of JSON
(https://huggingface.co/docs/safetensors).
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_core.errors import ModelError
from training_core.json_lines import parse_json

_MAX_CONFIG_BYTES = 4_000_000
_MAX_HEADER_BYTES = 100_000_000
"""Maximum header length in bytes; the second is the format's limit."""
_NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "num_heads"),
    "vocabulary": ("vocab_size",),
}
"""Names of the required sizes in different architectures."""

ADAPTER_CONFIG = "adapter_config.json"


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only transformer with gated feed-forward blocks (Llama, Qwen, Mistral, Gemma)."""

    parameters: int
    layers: int
    hidden: int
    """Width of the residual stream."""
    heads: int
    key_value_heads: int
    head_size: int
    intermediate: int
    """Width of a feed-forward block."""
    vocabulary: int
    context: int
    """Maximum number of positions; 0 if the config does not contain it."""


def read_shape(folder: Path) -> ModelShape:
    """Sizes of the model in a Hugging Face folder; of an adapter, those of its base. Raises ModelError if they cannot be read."""
    if (folder / ADAPTER_CONFIG).is_file():
        return shape_from(_object(folder / "config.json", _MAX_CONFIG_BYTES))
    return shape_from(_object(folder / "config.json", _MAX_CONFIG_BYTES), count_parameters(folder))


def adapter_config(folder: Path) -> dict[str, Any]:
    """An adapter's config, including its base model. Raises ModelError if it cannot be read."""
    facts = _object(folder / ADAPTER_CONFIG, _MAX_CONFIG_BYTES)
    if not {"base_model_name_or_path", "r", "lora_alpha", "target_modules"} <= facts.keys():
        raise ModelError(f"{ADAPTER_CONFIG} in {folder} is not one of a LoRA adapter")
    return facts


def shape_from(config: Mapping[str, Any], parameters: int | None = None) -> ModelShape:
    """Sizes from a config.json; parameters are computed if not given.

    Raises ModelError if a size is missing, or if the parameters of a mixture of experts were not counted.
    """
    inner = config.get("text_config")
    sizes = {**config, **inner} if isinstance(inner, Mapping) else dict(config)
    values = {name: _size(sizes, keys) for name, keys in _NAMES.items()}
    if missing := [_NAMES[name][0] for name, value in values.items() if value is None]:
        raise ModelError(f"config.json has no {', '.join(missing)}")
    required = {name: value for name, value in values.items() if value is not None}
    if parameters is None and (sizes.get("num_experts") or sizes.get("num_local_experts")):
        raise ModelError(
            "parameters of a mixture of experts are counted in its safetensors files, and there are none",
            remedy="save the model as safetensors",
        )
    shape = ModelShape(
        parameters=parameters or 0,
        key_value_heads=_size(sizes, ("num_key_value_heads",)) or required["heads"],
        head_size=_size(sizes, ("head_dim",)) or required["hidden"] // required["heads"],
        intermediate=_size(sizes, ("intermediate_size", "n_inner", "ffn_dim")) or 4 * required["hidden"],
        context=_size(sizes, ("max_position_embeddings", "n_positions")) or 0,
        **required,
    )
    if parameters is not None:
        return shape
    return _with_parameters(shape, dense_parameters(shape, tied=bool(sizes.get("tie_word_embeddings"))))


def dense_parameters(shape: ModelShape, *, tied: bool) -> int:
    """Parameters of a Llama of these sizes: embeddings, and per layer attention, a gated block and two norms.

    Without biases (Llama has none; Qwen 2 has a few thousand per layer).
    """
    attention = 2 * shape.hidden * shape.head_size * (shape.heads + shape.key_value_heads)
    block = attention + 3 * shape.hidden * shape.intermediate + 2 * shape.hidden
    embeddings = shape.vocabulary * shape.hidden * (1 if tied else 2)
    return embeddings + shape.layers * block + shape.hidden


def count_parameters(folder: Path) -> int | None:
    """Number of parameters in a folder's safetensors files; None if there are no such files.

    Raises ModelError for a damaged file, or if a file in the index is missing.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        weight_map = _object(index, _MAX_HEADER_BYTES).get("weight_map")
        if not isinstance(weight_map, dict):
            raise ModelError(f"{index.name} has no weight_map")
        files = [folder / Path(str(name)).name for name in sorted(set(weight_map.values()))]
    else:
        files = sorted(folder.glob("*.safetensors"))
    return sum(map(_count, files)) if files else None


def _count(path: Path) -> int:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MAX_HEADER_BYTES:
                raise ModelError(f"{path.name} is not a safetensors file")
            header = parse_json(file.read(length))
        shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
        return sum(math.prod(shape) for shape in shapes)
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path.name} cannot be read as safetensors") from error


def _object(path: Path, limit: int) -> dict[str, Any]:
    try:
        if path.stat().st_size > limit:
            raise ModelError(f"{path.name} has a header that is too long")
        read = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelError(f"{path.name} cannot be read") from error
    if not isinstance(read, dict):
        raise ModelError(f"{path.name} does not contain a JSON object")
    return read


def _size(sizes: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    """The first of these keys with a positive integer."""
    for key in keys:
        value = sizes.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _with_parameters(shape: ModelShape, parameters: int) -> ModelShape:
    return ModelShape(**{**vars(shape), "parameters": parameters})

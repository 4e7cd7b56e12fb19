"""Sizes of public models by their hub id, for estimates before their download. No torch, no network.

From the config.json of each repository on huggingface.co. Parameters are those of the published weights: Qwen3 has a
scale for queries and one for keys in each layer, Qwen2.5 biases of queries, keys and values.
"""

from dataclasses import replace
from typing import NamedTuple

from training_core.llm.models.shape import ModelShape, dense_parameters


class _Sizes(NamedTuple):
    layers: int
    hidden: int
    heads: int
    key_value_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    tied: bool
    """Whether input and output embeddings are one tensor."""


_QWEN3 = {
    "0.6B": _Sizes(28, 1024, 16, 8, 128, 3072, 151_936, True),
    "1.7B": _Sizes(28, 2048, 16, 8, 128, 6144, 151_936, True),
    "4B": _Sizes(36, 2560, 32, 8, 128, 9728, 151_936, True),
    "8B": _Sizes(36, 4096, 32, 8, 128, 12_288, 151_936, False),
}
_QWEN2_5 = {
    "0.5B": _Sizes(24, 896, 14, 2, 64, 4864, 151_936, True),
    "1.5B": _Sizes(28, 1536, 12, 2, 128, 8960, 151_936, True),
    "3B": _Sizes(36, 2048, 16, 2, 128, 11_008, 151_936, True),
    "7B": _Sizes(28, 3584, 28, 4, 128, 18_944, 152_064, False),
}
_SMOLLM2 = {
    "135M": _Sizes(30, 576, 9, 3, 64, 1536, 49_152, True),
    "360M": _Sizes(32, 960, 15, 5, 64, 2560, 49_152, True),
    "1.7B": _Sizes(24, 2048, 32, 32, 64, 8192, 49_152, True),
}


def _shape(sizes: _Sizes, context: int, more: int = 0) -> ModelShape:
    """The shape; a layer has `more` parameters in addition to those of Llama."""
    shape = ModelShape(0, *sizes[:-1], context)
    return replace(shape, parameters=dense_parameters(shape, tied=sizes.tied) + sizes.layers * more)


def _biases(sizes: _Sizes) -> int:
    return (sizes.heads + 2 * sizes.key_value_heads) * sizes.head_size


PUBLISHED: dict[str, ModelShape] = (
    {f"Qwen/Qwen3-{name}": _shape(sizes, 40_960, 2 * sizes.head_size) for name, sizes in _QWEN3.items()}
    | {
        f"Qwen/Qwen3-{name}-Base": _shape(sizes, 32_768, 2 * sizes.head_size)
        for name, sizes in _QWEN3.items()
    }
    | {
        f"Qwen/Qwen2.5-{name}{variant}": _shape(sizes, 32_768, _biases(sizes))
        for name, sizes in _QWEN2_5.items()
        for variant in ("", "-Instruct")
    }
    | {
        f"HuggingFaceTB/SmolLM2-{name}{variant}": _shape(sizes, 8192)
        for name, sizes in _SMOLLM2.items()
        for variant in ("", "-Instruct")
    }
)
"""Hub id -> sizes. The base models of Qwen2.5 have up to 131,072 positions, of which the estimate uses no more than 32,768."""

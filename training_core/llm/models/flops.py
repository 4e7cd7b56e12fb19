"""Model FLOPs: the arithmetic that a model needs for some tokens, and the peak performance of devices.

Model FLOPs utilisation (MFU) as Chowdhery et al. 2022 (PaLM, section 4.1 and appendix B) define it: the FLOPs that
the model needs per second, over the device's peak. A multiply-add counts as two. Unlike there, attention is counted
causally (a token attends to itself and visible earlier tokens) and the output layer only where a token is predicted.
Padding, recomputation, norms and activations are not counted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training_core.llm.models.shape import ModelShape, shape_from
from training_core.types import Answer, Prompt

GATED = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Architectures whose layers are four attention projections and three of a gated MLP; others are not supported."""
TRAINING = 3
"""Forward and backward, in forwards: the backward pass multiplies every matrix twice (Kaplan et al. 2020, 2.1)."""
TERA = 1e12
PEAKS: dict[str, dict[str, float]] = {
    "A10": {"fp32": 31.2, "bf16": 125.0},
    "A100": {"fp32": 19.5, "bf16": 312.0},
    "B200": {"bf16": 2250.0},
    "GeForce RTX 3090": {"fp32": 35.6, "bf16": 71.0},
    "GeForce RTX 4090": {"fp32": 82.6, "bf16": 165.2},
    "GH200": {"fp32": 67.0, "bf16": 989.4},
    "H100": {"fp32": 66.9, "bf16": 989.4},
    "H100 NVL": {"fp32": 60.0, "bf16": 835.5},
    "H100 PCIe": {"fp32": 51.2, "bf16": 756.0},
    "H200": {"fp32": 66.9, "bf16": 989.4},
    "H200 NVL": {"fp32": 60.0, "bf16": 835.5},
    "L4": {"fp32": 30.3, "bf16": 121.0},
    "L40": {"fp32": 90.5, "bf16": 181.0},
    "L40S": {"fp32": 91.6, "bf16": 362.0},
    "MI300X": {"fp32": 163.4, "bf16": 1307.4},
    "RTX 6000 Ada": {"fp32": 91.1, "bf16": 364.2},
    "RTX A6000": {"fp32": 38.7, "bf16": 154.8},
    "T4": {"fp32": 8.1},
    "V100-PCIE": {"fp32": 14.0},
    "V100-SXM2": {"fp32": 15.7},
}
"""TFLOP/s of dense matrices by words of the device's name, from the vendors' data sheets. fp32 is plain fp32
arithmetic, because torch disables TF32. Precisions without hardware support are omitted.
"""


@dataclass(frozen=True)
class Work:
    """The work of a forward pass."""

    tokens: int
    """Places that pass through the layers."""
    context: int
    """Sum of the places that these attend to, including themselves."""
    predicted: int
    """Places whose logits are computed."""


def forward_flops(shape: ModelShape, work: Work) -> float:
    """FLOPs of one forward pass: projections, attention (scores and their weighted sum), output layer."""
    query, key_value = shape.heads * shape.head_size, shape.key_value_heads * shape.head_size
    layer = shape.hidden * (2 * query + 2 * key_value) + 3 * shape.hidden * shape.intermediate
    attention = 4.0 * shape.layers * query * work.context
    return (
        2.0 * shape.layers * layer * work.tokens
        + attention
        + 2.0 * shape.hidden * shape.vocabulary * work.predicted
    )


def shape_of(config: Any) -> ModelShape | None:
    """The sizes in a transformers config; None if the architecture is unknown, or if not all layers have full attention."""
    kinds = getattr(config, "layer_types", None) or []
    if getattr(config, "model_type", "") not in GATED or any(kind != "full_attention" for kind in kinds):
        return None
    return shape_from(config.to_dict(), parameters=0)


def peak_of(device: str, precision: str) -> float | None:
    """FLOP/s of a device at its peak, by its name ("NVIDIA H100 80GB HBM3") and fp32 or bf16; None if unknown."""
    fits = [name for name in PEAKS if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", device, re.IGNORECASE)]
    if not fits:
        return None
    peak = PEAKS[max(fits, key=len)].get(precision)
    return peak * TERA if peak is not None else None


def generation_work(prompts: Sequence[Prompt], answers: Sequence[Sequence[Answer]]) -> Work:
    """Work of sampling these answers: equal prompts, and common prefixes of their answers, count once.

    The last token of an answer is not fed to the model. Tokens cached from earlier calls (continued conversations,
    vLLM's prefix cache) are unknown here and counted, so utilisation is then overestimated.
    """
    tokens = context = predicted = 0
    trees: dict[tuple[int, ...], dict[tuple[int, int], int]] = {}
    for prompt, group in zip(prompts, answers, strict=True):
        text = tuple(prompt.token_ids)
        size = len(text)
        if text not in trees:
            trees[text] = {}
            tokens, context, predicted = tokens + size, context + size * (size + 1) // 2, predicted + 1
        tree = trees[text]
        for answer in group:
            node = 0
            for depth, token in enumerate(answer.token_ids[:-1], start=1):
                before = len(tree)
                node = tree.setdefault((node, token), before + 1)
                if len(tree) > before:
                    tokens, context, predicted = tokens + 1, context + size + depth, predicted + 1
    return Work(tokens, context, predicted)

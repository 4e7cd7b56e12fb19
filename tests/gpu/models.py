"""Random models in the shapes of well-known ones, and a tokenizer of made-up words for any vocabulary."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from training_core.llm.base_models.tiny import SPECIAL
from training_core.llm.base_models.warm_start import word_tokenizer

CLASSES: dict[str, tuple[Any, Any]] = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}


@dataclass(frozen=True)
class Size:
    """Sizes of a decoder."""

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    intermediate: int
    vocabulary: int = 151_936
    tied: bool = False


SIZES = {
    "0.5B": Size(896, 24, 14, 2, 4864, tied=True),
    "1.7B": Size(2048, 28, 16, 8, 6144, tied=True),
    "4B": Size(2560, 36, 20, 4, 9728, tied=True),
    "8B": Size(4096, 36, 32, 8, 12288),
}
"""Widths and depths of Qwen2.5 0.5B, and of Qwen3 1.7B, 4B and 8B. Heads have 64 or 128 numbers."""
TINY = Size(64, 2, 4, 2, 128, 96, tied=True)
"""For the CPU."""


def make_model(
    family: str,
    size: Size,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    *,
    seed: int = 0,
    spread: float = 1.0,
) -> PreTrainedModel:
    """A model with random weights, made on its device. `spread` multiplies its matrices, so that distributions are not uniform."""
    make_config, make = CLASSES[family]
    config = make_config(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.key_value_heads,
        max_position_embeddings=32_768,
        tie_word_embeddings=size.tied,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    before = torch.get_default_dtype()
    torch.manual_seed(seed)
    torch.set_default_dtype(dtype)
    try:
        with device:
            model: PreTrainedModel = make(config)
    finally:
        torch.set_default_dtype(before)
    if spread != 1.0:
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.mul_(spread)
    return model.eval()


def make_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """A tokenizer with a made-up word for every token of the vocabulary."""
    return word_tokenizer(tuple(f"w{number}" for number in range(vocabulary - len(SPECIAL))))

"""Capabilities of a model's attention."""

from typing import Any

from transformers import PreTrainedModel

_MASKABLE = ("sdpa", "eager")
"""Attention implementations that accept a custom mask."""


def attends_fully(model: PreTrainedModel) -> bool:
    """Whether every layer attends to all previous tokens (no window, chunks, recurrence) and accepts a custom mask."""
    config: Any = model.config.get_text_config()
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    kinds = getattr(config, "layer_types", None) or []
    return (
        all(kind == "full_attention" for kind in kinds)
        and not window
        and not getattr(config, "attention_chunk_size", None)
        and config._attn_implementation in _MASKABLE
    )

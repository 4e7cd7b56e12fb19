"""What a model's attention lets one do."""

from typing import Any

from transformers import PreTrainedModel

_MASKABLE = ("sdpa", "eager")
"""Attention implementations that take a mask of one's own."""


def attends_fully(model: PreTrainedModel) -> bool:
    """Whether every layer sees all that comes before a token (no window, chunks, recurrence), by a mask that may be given."""
    config: Any = model.config.get_text_config()
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    kinds = getattr(config, "layer_types", None) or []
    return (
        all(kind == "full_attention" for kind in kinds)
        and not window
        and not getattr(config, "attention_chunk_size", None)
        and config._attn_implementation in _MASKABLE
    )

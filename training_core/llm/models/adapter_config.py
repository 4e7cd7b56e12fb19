"""The configs of adapters."""

from typing import Literal

from pydantic import Field

from training_core.config.base import NumberOrAuto, Section

TINY_HIDDEN = 256
"""Largest hidden size of a model that counts as tiny."""
TINY_ALPHA, LARGE_ALPHA = 128, 16
"""Alpha with "auto". A step of Adam moves an adapter's weights by the learning rate and its output by alpha times as much, which is
little in narrow layers.
"""


class WholeModel(Section):
    """No adapter."""

    type: Literal["none"] = "none"
    """Every weight of the policy is trained."""


class Lora(Section):
    """Low-rank adaptation (LoRA, arXiv 2106.09685): a small adapter is trained; its base model is not changed."""

    type: Literal["lora"] = "lora"
    """Only an adapter is trained, published and stored in checkpoints. A large model's needs a learning rate several times higher."""
    rank: int = Field(8, ge=1, le=1024)
    """Rank of the adapter's matrices."""
    alpha: NumberOrAuto = "auto"
    """The adapter's output is scaled by alpha / rank; auto: 128 for models with a hidden size of at most 256, otherwise 16."""
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout of the adapter's inputs in training; above 0, probability ratios of fresh data are not exactly 1."""
    target_modules: tuple[str, ...] = ()
    """Names of the linear layers that get an adapter, such as q_proj; empty: all except the output layer."""

    def alpha_for(self, hidden_size: int) -> int:
        """Alpha for a model of this hidden size: with auto, the value of the ablation in docs/train/learners.md."""
        if self.alpha != "auto":
            return self.alpha
        return TINY_ALPHA if hidden_size <= TINY_HIDDEN else LARGE_ALPHA

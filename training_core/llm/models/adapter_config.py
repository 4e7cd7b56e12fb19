"""The configs of adapters."""

from typing import Literal

from pydantic import Field

from training_core.config.base import Section


class WholeModel(Section):
    """No adapter."""

    type: Literal["none"] = "none"
    """Every weight of the policy is trained."""


class Lora(Section):
    """Low-rank adaptation (LoRA, arXiv 2106.09685): a small adapter is trained; its base model is not changed."""

    type: Literal["lora"] = "lora"
    """Only an adapter is trained, published and stored in checkpoints. It needs a learning rate several times higher."""
    rank: int = Field(8, ge=1, le=1024)
    """Rank of the adapter's matrices."""
    alpha: int = Field(16, ge=1)
    """The adapter's output is scaled by alpha / rank."""
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout of the adapter's inputs in training; above 0, probability ratios of fresh data are not exactly 1."""
    target_modules: tuple[str, ...] = ()
    """Names of the linear layers that get an adapter, such as q_proj; empty: all except the output layer."""

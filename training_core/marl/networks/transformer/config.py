"""The config of transformers."""

from typing import Literal, Self

from pydantic import Field

from training_core.config.base import cross_field
from training_core.marl.networks.network_config import Recurrent


class Transformer(Recurrent):
    """Causal transformer over a sliding window of steps."""

    type: Literal["transformer"] = "transformer"
    """Causal self-attention over the last steps of the episode."""
    heads: int = Field(4, ge=1)
    """Number of attention heads; must divide recurrent_hidden_dim."""
    context_length: int = Field(32, ge=1, le=1024)
    """Steps in the attention window, including the current one."""

    @cross_field
    def _heads_divide(self) -> Self:
        if self.recurrent_hidden_dim % self.heads:
            raise ValueError(f"heads: must divide recurrent_hidden_dim = {self.recurrent_hidden_dim}")
        return self

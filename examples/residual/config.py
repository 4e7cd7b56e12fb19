"""The config of residual networks."""

from typing import Literal

from pydantic import Field

from training_core.marl.networks.config import Network


class Residual(Network):
    """A layer, then blocks with a residual connection each."""

    type: Literal["residual"] = "residual"
    """Residual blocks."""
    blocks: int = Field(2, ge=1, le=16)
    """Number of residual blocks, each of hidden_layers layers."""

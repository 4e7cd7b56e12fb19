"""Config fields that networks share."""

from typing import Literal

from pydantic import Field

from training_core.config.base import Section


class Network(Section):
    """Settings shared by all networks of actors and critics."""

    type: str
    """The network."""
    hidden_dim: int = Field(128, ge=1)
    """Width of hidden layers."""
    hidden_layers: int = Field(2, ge=1, le=16)
    """Number of hidden layers."""
    activation: Literal["tanh", "relu", "gelu"] = "tanh"
    """Activation function between layers."""
    identity_dim: int = Field(16, ge=0)
    """Size of the learnt embedding that identifies an agent within its role; 0 for none. Unused if weights are not shared."""
    share_parameters: bool = True
    """All agents of a role share one network; false gives each agent separate weights."""
    orthogonal: bool = True
    """Orthogonal initial weights, with a small gain in the action layer; false uses torch's default."""

    @property
    def sequence_length(self) -> int:
        """Steps that are trained as one sequence: 1 without memory."""
        return 1


class Recurrent(Network):
    """Settings shared by networks with memory; hidden_layers precede the memory."""

    hidden_layers: int = Field(1, ge=0, le=16)
    """Number of hidden layers before the memory."""
    recurrent_hidden_dim: int = Field(64, ge=1)
    """Size of the memory."""
    recurrent_layers: int = Field(1, ge=1, le=8)
    """Number of layers of the memory."""
    chunk_length: int = Field(16, ge=1)
    """Steps of backpropagation through time; rollouts are split into chunks of this length."""

    @property
    def sequence_length(self) -> int:
        """Steps of a chunk."""
        return self.chunk_length

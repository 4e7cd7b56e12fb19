"""Config classes of networks: settings that they share, and one class for each `type`. Imports no torch."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import Arguments, Section, cross_field
from training_core.config.effects import Effects, where
from training_core.importing import IMPORT_PATH


class Network(Section):
    """Settings shared by all networks of actors and critics."""

    effects: ClassVar[Effects] = {"identity_dim": where("share_parameters", True)}
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


class Mlp(Network):
    """A network without memory."""

    type: Literal["mlp"] = "mlp"
    """Multi-layer perceptron."""


class Cnn(Network):
    """A network without memory for observations that are pictures; hidden_layers follow the convolutions."""

    type: Literal["cnn"] = "cnn"
    """Convolutional network."""
    hidden_layers: int = Field(1, ge=1, le=16)
    """Number of hidden layers after the convolutions."""
    activation: Literal["tanh", "relu", "gelu"] = "relu"
    """Activation function between layers."""
    filters: tuple[Annotated[int, Field(ge=1)], ...] = Field((16, 32, 32), min_length=1, max_length=8)
    """Filters of each convolution, of 3 x 3 pixels; one with more than 8 rows and columns halves them."""
    channels: Literal["last", "first"] = "last"
    """Dimension of the colours or planes in the observation: (height, width, channels) or (channels, height, width)."""


class Gru(Recurrent):
    """Gated recurrent unit."""

    type: Literal["gru"] = "gru"
    """GRU."""


class Lstm(Recurrent):
    """Long short-term memory."""

    type: Literal["lstm"] = "lstm"
    """LSTM."""


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


class CustomNetwork(Network):
    """A custom class, with or without memory, by import path."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """A subclass of Backbone of training_core/marl/networks/base.py."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class, a subclass of Backbone; the class is constructed with this section, the number of inputs, and `args`."""
    args: Arguments = {}
    """Additional keyword arguments that the class is constructed with."""
    chunk_length: int = Field(16, ge=1)
    """Steps of backpropagation through time, as for gru; unused if the class has no memory."""

    @property
    def sequence_length(self) -> int:
        """Steps of a chunk."""
        return self.chunk_length

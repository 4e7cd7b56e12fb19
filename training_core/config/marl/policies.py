"""Policies of small-network agents: networks and learners."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

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


class Mlp(Network):
    """A network without memory."""

    type: Literal["mlp"] = "mlp"
    """Multi-layer perceptron."""


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

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.recurrent_hidden_dim % self.heads:
            raise ValueError(f"heads: must divide recurrent_hidden_dim = {self.recurrent_hidden_dim}")
        return self


AnyNetwork = Annotated[Mlp | Gru | Lstm | Transformer, Field(discriminator="type")]
"""One class per network, selected by `type`."""

NETWORK_CONFIGS: dict[str, type[Network]] = {"mlp": Mlp, "gru": Gru, "lstm": Lstm, "transformer": Transformer}


class MarlLearner(Section):
    """Settings of a small network's learner."""

    actor_learning_rate: float = Field(3e-4, gt=0.0)
    """Peak learning rate of the actor's Adam."""
    critic_learning_rate: float = Field(3e-4, gt=0.0)
    """Peak learning rate of the critic's Adam."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Decoupled weight decay of actor and critic; 0 disables."""
    schedule: Literal["constant", "linear"] = "constant"
    """Learning rates are constant, or decay linearly to 0 over the run's iterations."""
    max_grad_norm: float = Field(0.5, ge=0.0)
    """Gradients of actor and critic are each scaled down to this L2 norm; 0 disables."""
    epochs: int = Field(4, ge=1)
    """Passes over an iteration's samples."""
    minibatch_size: int = Field(256, ge=1)
    """Samples (one step of one agent) per optimiser step."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16: matrix products of the update in bf16 by autocast, weights in fp32. Curves are reproducible from the seed in fp32 only."""
    compile: bool = False
    """Compile the update with torch.compile; the first iteration takes longer."""


class MarlPolicy(Section):
    """The networks of one or more roles: an actor and a critic."""

    network: AnyNetwork = Mlp()
    """Architecture of the actor and of the critic."""
    learner: MarlLearner = MarlLearner()
    """Learner settings of actor and critic."""

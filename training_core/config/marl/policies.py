"""Policies of small-network agents: which network, how it learns."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from training_core.config.base import Section


class Network(Section):
    """What actors and critics of every kind can be asked for."""

    type: str
    """Which network."""
    hidden_dim: int = Field(128, ge=1)
    """Width of hidden layers."""
    hidden_layers: int = Field(2, ge=1, le=16)
    """Hidden layers."""
    activation: Literal["tanh", "relu", "gelu"] = "tanh"
    """Between layers."""
    identity_dim: int = Field(16, ge=0)
    """Size of the learnt embedding that tells agents of a role apart; 0 for none. Unused where weights are not shared."""
    share_parameters: bool = True
    """All agents of a role share one network; false gives each agent weights of its own."""
    orthogonal: bool = True
    """Orthogonal initial weights, with a small gain before the actions; false keeps torch's."""


class Mlp(Network):
    """Layers without memory."""

    type: Literal["mlp"] = "mlp"
    """Multi-layer perceptron."""


class Recurrent(Network):
    """What networks with memory have in common; hidden_layers come before the memory."""

    hidden_layers: int = Field(1, ge=0, le=16)
    """Hidden layers before the memory."""
    recurrent_hidden_dim: int = Field(64, ge=1)
    """Size of the memory."""
    recurrent_layers: int = Field(1, ge=1, le=8)
    """Layers of the memory."""
    chunk_length: int = Field(16, ge=1)
    """Steps through which gradients go back; rollouts are cut into chunks of as many."""


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
    """Attention heads; divide recurrent_hidden_dim."""
    context_length: int = Field(32, ge=1, le=1024)
    """Steps that it looks back on, the present one included."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.recurrent_hidden_dim % self.heads:
            raise ValueError(f"heads: must divide recurrent_hidden_dim = {self.recurrent_hidden_dim}")
        return self


AnyNetwork = Annotated[Mlp | Gru | Lstm | Transformer, Field(discriminator="type")]
"""One class per network, told apart by `type`."""

NETWORK_CONFIGS: dict[str, type[Network]] = {"mlp": Mlp, "gru": Gru, "lstm": Lstm, "transformer": Transformer}


class MarlLearner(Section):
    """How a small network learns."""

    actor_learning_rate: float = Field(3e-4, gt=0.0)
    """Peak learning rate of the actor's Adam."""
    critic_learning_rate: float = Field(3e-4, gt=0.0)
    """Peak learning rate of the critic's Adam."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Decoupled weight decay of both; 0 disables."""
    schedule: Literal["constant", "linear"] = "constant"
    """Learning rates stay, or fall to 0 in a line over the run's iterations."""
    max_grad_norm: float = Field(0.5, ge=0.0)
    """Gradients of actor and critic are each scaled down to this L2 norm; 0 disables."""
    epochs: int = Field(4, ge=1)
    """Passes over an iteration's samples."""
    minibatch_size: int = Field(256, ge=1)
    """Samples (a step of one agent) per optimiser step."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16: matrix products of the update in bf16 by autocast, weights in fp32. Same seed, same curve is promised in fp32 only."""
    compile: bool = False
    """Compile the update by torch.compile; the first iteration takes longer."""


class MarlPolicy(Section):
    """The networks behind one or more roles: an actor and a critic."""

    network: AnyNetwork = Mlp()
    """Shape of the actor and of the critic."""
    learner: MarlLearner = MarlLearner()
    """How they learn."""

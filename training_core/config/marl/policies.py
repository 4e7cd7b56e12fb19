"""Policies of small-network agents: networks and learners."""

from typing import TYPE_CHECKING, Annotated, Literal, Union

from pydantic import Field

from training_core.config.base import Section
from training_core.marl.networks.mlp.config import Mlp
from training_core.marl.networks.network_config import Network
from training_core.marl.networks.registry import NETWORKS

NETWORK_CONFIGS: dict[str, type[Network]] = {tag: kind.config for tag, kind in NETWORKS.items()}
"""type -> config class."""

if TYPE_CHECKING:
    AnyNetwork = Network
else:
    AnyNetwork = Annotated[Union[tuple(NETWORK_CONFIGS.values())], Field(discriminator="type")]  # noqa: UP007
    """One class per network, selected by `type`."""


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
    """Samples (one step of one agent) per optimizer step."""
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

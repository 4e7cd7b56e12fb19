"""Networks of small-network agents by the `type` of `policies.*.network` (config.py). Imports no torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from training_core.config.base import one_of
from training_core.marl.networks.config import Cnn, CustomNetwork, Gru, Lstm, Mlp, Network, Transformer


@dataclass(frozen=True)
class NetworkKind:
    """One type of network."""

    config: type[Network]
    make: str
    """"module:Name" in this package: a Backbone, called with (config section, number of inputs)."""
    sees_pictures: bool = False
    """Whether `make` is called with the pictures at the start of the inputs, too, or None if there are none."""


NETWORKS: dict[str, NetworkKind] = {
    "mlp": NetworkKind(Mlp, "layers:MlpBackbone"),
    "cnn": NetworkKind(Cnn, "cnn:CnnBackbone", sees_pictures=True),
    "gru": NetworkKind(Gru, "recurrent:GruBackbone"),
    "lstm": NetworkKind(Lstm, "recurrent:LstmBackbone"),
    "transformer": NetworkKind(Transformer, "transformer:TransformerBackbone"),
    "custom": NetworkKind(CustomNetwork, "custom:make"),
}
"""Networks by type, in the order of the pages."""
NETWORK_CONFIGS: dict[str, type[Network]] = {tag: kind.config for tag, kind in NETWORKS.items()}
"""type -> config class."""

if TYPE_CHECKING:
    AnyNetwork = Network
else:
    AnyNetwork = one_of(NETWORK_CONFIGS)

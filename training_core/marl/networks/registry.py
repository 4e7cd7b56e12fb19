"""Networks of small-network agents by the `type` of `policies.*.network`: one folder and one line each.

Only the `config` modules are imported here.
"""

from dataclasses import dataclass

from training_core.marl.networks.custom.config import CustomNetwork
from training_core.marl.networks.gru.config import Gru
from training_core.marl.networks.lstm.config import Lstm
from training_core.marl.networks.mlp.config import Mlp
from training_core.marl.networks.network_config import Network
from training_core.marl.networks.transformer.config import Transformer


@dataclass(frozen=True)
class NetworkKind:
    """One type of network."""

    config: type[Network]
    make: str
    """"folder.module:Name" in this package: a Backbone, called with (config section, number of inputs)."""


NETWORKS: dict[str, NetworkKind] = {
    "mlp": NetworkKind(Mlp, "mlp.backbone:MlpBackbone"),
    "gru": NetworkKind(Gru, "gru.backbone:GruBackbone"),
    "lstm": NetworkKind(Lstm, "lstm.backbone:LstmBackbone"),
    "transformer": NetworkKind(Transformer, "transformer.backbone:TransformerBackbone"),
    "custom": NetworkKind(CustomNetwork, "custom.backbone:make"),
}
"""Networks by type, in the order of the pages."""

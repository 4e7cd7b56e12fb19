"""Backbones by the `type` of `policies.*.network`: constructed from that section and the number of inputs."""

from collections.abc import Callable
from typing import Any

from training_core.marl.networks.base import Backbone
from training_core.marl.networks.gru import GruBackbone
from training_core.marl.networks.lstm import LstmBackbone
from training_core.marl.networks.mlp import MlpBackbone
from training_core.marl.networks.transformer import TransformerBackbone

BACKBONES: dict[str, Callable[[Any, int], Backbone]] = {
    "mlp": MlpBackbone,
    "gru": GruBackbone,
    "lstm": LstmBackbone,
    "transformer": TransformerBackbone,
}

"""Backbones by the `type` of a policy's network section."""

from collections.abc import Callable
from typing import Any

from training_core.marl.networks.base import Backbone
from training_core.marl.networks.gru import GruBackbone
from training_core.marl.networks.lstm import LstmBackbone
from training_core.marl.networks.transformer import TransformerBackbone

BACKBONES: dict[str, Callable[[int, Any], Backbone]] = {
    "gru": GruBackbone,
    "lstm": LstmBackbone,
    "transformer": TransformerBackbone,
}
"""type -> (number of inputs, network section) -> backbone."""

"""The config of networks without memory."""

from typing import Literal

from training_core.marl.networks.network_config import Network


class Mlp(Network):
    """A network without memory."""

    type: Literal["mlp"] = "mlp"
    """Multi-layer perceptron."""

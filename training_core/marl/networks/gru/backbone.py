"""Gated recurrent unit (Cho et al. 2014, arXiv 1406.1078)."""

from torch import nn

from training_core.marl.networks.network_config import Recurrent
from training_core.marl.networks.recurrence import Recurrence


class GruBackbone(Recurrence):
    """Hidden layers, then a GRU."""

    def __init__(self, config: Recurrent, inputs: int) -> None:
        super().__init__(config, inputs, nn.GRU)

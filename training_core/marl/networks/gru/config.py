"""The config of GRUs."""

from typing import Literal

from training_core.marl.networks.network_config import Recurrent


class Gru(Recurrent):
    """Gated recurrent unit."""

    type: Literal["gru"] = "gru"
    """GRU."""

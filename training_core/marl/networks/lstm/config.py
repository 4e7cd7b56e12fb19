"""The config of LSTMs."""

from typing import Literal

from training_core.marl.networks.network_config import Recurrent


class Lstm(Recurrent):
    """Long short-term memory."""

    type: Literal["lstm"] = "lstm"
    """LSTM."""

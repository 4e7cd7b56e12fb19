"""Long short-term memory (Hochreiter and Schmidhuber 1997)."""

from torch import nn

from training_core.marl.networks.network_config import Recurrent
from training_core.marl.networks.recurrence import Recurrence


class LstmBackbone(Recurrence):
    """Hidden layers, then an LSTM."""

    def __init__(self, config: Recurrent, inputs: int) -> None:
        super().__init__(config, inputs, nn.LSTM)

"""A multi-layer perceptron."""

from torch import Tensor

from training_core.marl.networks.base import Backbone, Memory
from training_core.marl.networks.layers import layers
from training_core.marl.networks.network_config import Network


class MlpBackbone(Backbone):
    """A multi-layer perceptron, applied to each step independently."""

    def __init__(self, config: Network, inputs: int) -> None:
        super().__init__()
        self.features = config.hidden_dim
        self.layers = layers(config, inputs)

    def start(self, rows: int) -> Memory:
        return ()

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return self.layers(x), memory

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        features: Tensor = self.layers(x)
        return features

"""Residual blocks (He et al. 2015) without memory."""

from torch import Tensor, nn

from examples.residual.config import Residual
from training_core.marl.networks.base import Backbone, Memory
from training_core.marl.networks.layers import layers


class ResidualBackbone(Backbone):
    """Applied to each step independently."""

    def __init__(self, config: Residual, inputs: int) -> None:
        super().__init__()
        self.features = config.hidden_dim
        self.first = nn.Linear(inputs, self.features)
        self.blocks = nn.ModuleList(layers(config, self.features) for _ in range(config.blocks))

    def start(self, rows: int) -> Memory:
        return ()

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return self._features(x), memory

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        return self._features(x)

    def _features(self, x: Tensor) -> Tensor:
        features: Tensor = self.first(x)
        for block in self.blocks:
            features = features + block(features)
        return features

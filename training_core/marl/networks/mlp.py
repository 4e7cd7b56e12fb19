"""Layers without memory."""

import math

from torch import Tensor, nn

from training_core.config.marl.policies import Network
from training_core.marl.networks.base import Backbone, Memory

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}
GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "gelu": math.sqrt(2)}
"""Of orthogonal initial weights before each activation."""


def linear(inputs: int, outputs: int, orthogonal: bool, gain: float) -> nn.Linear:
    """A layer, orthogonal with zero bias, or as torch begins it."""
    layer = nn.Linear(inputs, outputs)
    if orthogonal:
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return layer


def layers(config: Network, inputs: int) -> nn.Sequential:
    """`hidden_layers` layers of `hidden_dim`, each with its activation."""
    parts: list[nn.Module] = []
    for place in range(config.hidden_layers):
        width = inputs if place == 0 else config.hidden_dim
        parts += [
            linear(width, config.hidden_dim, config.orthogonal, GAINS[config.activation]),
            ACTIVATIONS[config.activation](),
        ]
    return nn.Sequential(*parts)


class MlpBackbone(Backbone):
    """A multi-layer perceptron: every step by itself."""

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

"""A convolutional network for observations that are pictures: convolutions, then hidden layers.

Letters: R rows, D inputs, F features of all convolutions. The inputs are pictures one after another (a centralised critic sees
those of all agents), then other numbers, such as an agent's identity, which skip the convolutions.
"""

from math import prod

import torch
from torch import Tensor, nn

from training_core.errors import ConfigError
from training_core.marl.environments.base import Pictures
from training_core.marl.networks.base import Backbone, Memory
from training_core.marl.networks.config import Cnn
from training_core.marl.networks.layers import ACTIVATIONS, GAINS, layers

LEAST = 8
"""Rows and columns up to which a convolution does not halve them."""


class CnnBackbone(Backbone):
    """Convolutions with the same weights for every picture."""

    def __init__(self, config: Cnn, inputs: int, pictures: Pictures | None) -> None:
        """Raises ConfigError if the inputs are no pictures."""
        super().__init__()
        if pictures is None:
            text = "cnn needs observations that are pictures (a Box of three dimensions), for the critic all of one shape"
            remedy = 'Set it to "mlp", or for views of different shapes algorithm.type = "ippo"'
            raise ConfigError({"network.type": f"{text}."}, remedy=remedy)
        self.features = config.hidden_dim
        self._pictures, self._last = pictures, config.channels == "last"
        self._inputs = pictures.count * prod(pictures.shape)
        self.convolutions = nn.Sequential(*self._convolutions(config))
        with torch.no_grad():
            features = self._seen(torch.zeros(1, inputs)).shape[1]
        self.layers = layers(config, features)

    def start(self, rows: int) -> Memory:
        return ()

    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return self.layers(self._seen(x)), memory

    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        features: Tensor = self.layers(self._seen(x.flatten(0, 1))).unflatten(0, x.shape[:2])
        return features

    def _convolutions(self, config: Cnn) -> list[nn.Module]:
        shape = self._pictures.shape if self._last else (*self._pictures.shape[1:], self._pictures.shape[0])
        side, planes = min(shape[:2]), shape[2]
        parts: list[nn.Module] = []
        for filters in config.filters:
            stride = 2 if side > LEAST else 1
            layer = nn.Conv2d(planes, filters, 3, stride, padding=1)
            if config.orthogonal:
                nn.init.orthogonal_(layer.weight, GAINS[config.activation])
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
            parts += [layer, ACTIVATIONS[config.activation]()]
            side, planes = -(-side // stride), filters
        return parts

    def _seen(self, x: Tensor) -> Tensor:
        """(R, D) -> (R, F + other numbers)."""
        pixels, others = x[:, : self._inputs], x[:, self._inputs :]
        pictures = pixels.reshape(-1, *self._pictures.shape) * self._pictures.scale
        planes = self.convolutions(pictures.permute(0, 3, 1, 2) if self._last else pictures)
        return torch.cat([planes.reshape(len(x), -1), others], dim=1)

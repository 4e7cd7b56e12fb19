"""Layers that networks share, and the multi-layer perceptron."""

import math
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from training_core.fast_linear import ActivatedLinear
from training_core.marl.networks.base import Backbone, Memory
from training_core.marl.networks.config import Network


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


class _Tanh(torch.autograd.Function):
    """2 sigmoid(2x) - 1, in fp32 where x is bf16: near 0 the difference of two numbers near 1 needs fp32 precision."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.mul(2).to(torch.promote_types(x.dtype, torch.float32)).sigmoid_().mul_(2).sub_(1).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        gradient: Tensor = torch.ops.aten.tanh_backward(gradients[0], y)
        return gradient


class Tanh(nn.Module):
    """tanh to within 1e-6, by the logistic function: torch's tanh takes twice as long if MKL is slow (AMD)."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = _Tanh.apply(x)  # type: ignore[no-untyped-call]
        return y


ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": Tanh, "relu": nn.ReLU, "gelu": nn.GELU}
GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "gelu": math.sqrt(2)}
"""Gain of orthogonal initial weights before each activation."""


def linear(inputs: int, outputs: int, orthogonal: bool, gain: float) -> nn.Linear:
    """A layer, orthogonal with zero bias, or with torch's initialisation."""
    layer = nn.Linear(inputs, outputs)
    if orthogonal:
        _make_orthogonal(layer, gain)
    return layer


def layers(config: Network, inputs: int) -> nn.Sequential:
    """`hidden_layers` layers of `hidden_dim` with their activations. Their names are those of a list with separate activations."""
    parts: dict[str, nn.Module] = {}
    name = config.activation
    for index in range(config.hidden_layers):
        layer = ActivatedLinear(
            inputs if index == 0 else config.hidden_dim, config.hidden_dim, name, ACTIVATIONS[name]()
        )
        if config.orthogonal:
            _make_orthogonal(layer, GAINS[name])
        parts[str(2 * index)] = layer
    return nn.Sequential(OrderedDict(parts))


def _make_orthogonal(layer: nn.Linear, gain: float) -> None:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)

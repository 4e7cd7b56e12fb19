"""What actors and critics have in common: a backbone that turns inputs into features, with or without memory.

Letters: R rows (environment x agent; a centralised critic's rows are environments), L steps, D inputs, H features.
"""

from abc import ABC, abstractmethod
from math import sqrt

from torch import Tensor, nn

from training_core.config.marl.policies import Network

Memory = tuple[Tensor, ...]
"""What a row carries from step to step, rows in dimension 0; empty for networks without memory."""

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}
GAINS = {"tanh": 5 / 3, "relu": sqrt(2), "gelu": sqrt(2)}
"""Gain of orthogonal weights that keeps the variance through each activation."""


class Backbone(nn.Module, ABC):
    """Inputs to features. `step` acts, `sequence` learns; both give the same numbers."""

    width: int
    """H."""

    @abstractmethod
    def start(self, rows: int) -> Memory:
        """The memory of `rows` rows at an episode's begin."""

    @abstractmethod
    def step(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """One step of R rows: x (R, D) -> features (R, H) and the memory after it. The memory given is not changed."""

    @abstractmethod
    def sequence(self, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
        """L steps of R rows: x (L, R, D) -> features (L, R, H).

        `memory` is that before step 0. `begins[t, r]` (L, R, bool) says that row r's episode begins at step t: its memory
        is reset before that step.
        """


def hidden_layers(inputs: int, network: Network) -> tuple[nn.Sequential, int]:
    """The network's hidden layers with their activations, and how wide what leaves them is."""
    layers: list[nn.Module] = []
    width = inputs
    for _ in range(network.hidden_layers):
        layer = nn.Linear(width, network.hidden_dim)
        if network.orthogonal:
            nn.init.orthogonal_(layer.weight, GAINS[network.activation])
            nn.init.zeros_(layer.bias)
        layers += [layer, ACTIVATIONS[network.activation]()]
        width = network.hidden_dim
    return nn.Sequential(*layers), width


def select(memory: Memory, rows: Tensor) -> Memory:
    """The memory of some rows (indices or a mask)."""
    return tuple(part[rows] for part in memory)


def reset(memory: Memory, begins: Tensor) -> Memory:
    """The memory with that of the rows that begin (R, bool) emptied. Every backbone's empty memory is zeros."""
    return tuple(part.masked_fill(begins.view(-1, *[1] * (part.dim() - 1)), 0) for part in memory)

"""The normalisation of value targets: returns minus a running mean, divided by a running standard deviation.

After each change of scale the critic's last layer is corrected so that unnormalised values do not change (PopArt, van
Hasselt et al. 2016, arXiv 1602.07714).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SLOWEST = 0.05
"""Minimum weight of a new iteration's returns; the first iterations have weights as in a plain mean."""


@dataclass
class ValueScale:
    """Running moments of the returns; the identity until the first update."""

    mean: float = 0.0
    square: float = 1.0
    """Mean of squares."""
    updates: int = 0

    @property
    def std(self) -> float:
        return math.sqrt(max(self.square - self.mean**2, 1e-4))

    def normalise(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.std

    def denormalise(self, values: Tensor) -> Tensor:
        return values * self.std + self.mean

    def update(self, returns: Tensor, head: list[nn.Linear]) -> None:
        """Add another iteration's returns, and preserve the critic's value of each state."""
        mean, std = self.mean, self.std
        self.updates += 1
        weight = max(1 / self.updates, SLOWEST)
        self.mean += weight * (float(returns.mean()) - self.mean)
        self.square += weight * (float(returns.square().mean()) - self.square)
        with torch.no_grad():
            for layer in head:
                layer.weight.mul_(std / self.std)
                layer.bias.mul_(std).add_(mean - self.mean).div_(self.std)

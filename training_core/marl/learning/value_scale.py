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
SMALLEST = 1e-4
"""Minimum variance."""


@dataclass
class ValueScale:
    """Running moments of the returns; the identity until the first update."""

    mean: float = 0.0
    variance: float = 1.0
    """About the mean, so that returns far from zero keep their digits: a mean of squares has none left for them."""
    updates: int = 0

    @property
    def std(self) -> float:
        return math.sqrt(max(self.variance, SMALLEST))

    def normalise(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.std

    def denormalise(self, values: Tensor) -> Tensor:
        return values * self.std + self.mean

    def update(self, returns: Tensor, head: list[nn.Linear]) -> None:
        """Add another iteration's returns, and preserve the critic's value of each state."""
        mean, std = self.mean, self.std
        self.updates += 1
        weight = max(1 / self.updates, SLOWEST)
        exact = returns.double()
        shift = float(exact.mean()) - self.mean
        self.mean += weight * shift
        spread = float(exact.var(correction=0))
        self.variance += weight * (spread - self.variance + (1 - weight) * shift**2)
        with torch.no_grad():
            for layer in head:
                layer.weight.mul_(std / self.std)
                layer.bias.mul_(std).add_(mean - self.mean).div_(self.std)

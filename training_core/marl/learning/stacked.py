"""MLPs of several seeds as one batch of matrices, with one optimiser; see many_seeds.py.

Letters: S seeds, P weights of a network, N agents, D inputs.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training_core.config.marl.policies import MarlLearner
from training_core.marl.learning.value_scale import SLOWEST, SMALLEST
from training_core.marl.networks.agents import Networks


class StackedNetworks:
    """S networks of one form, and their Adam; every seed's gradients are clipped to its own norm."""

    def __init__(self, networks: Sequence[Networks], settings: MarlLearner) -> None:
        self._form: Any = networks[0]
        self._shapes = {name: weight.shape for name, weight in self._form.named_parameters()}
        flat = [
            torch.cat([weight.detach().flatten() for weight in network.parameters()]) for network in networks
        ]
        self.weights = nn.Parameter(torch.stack(flat))
        """(S, P)"""
        self._max_norm = settings.max_grad_norm
        self.adam = torch.optim.AdamW(
            [self.weights], lr=0.0, eps=1e-5, weight_decay=settings.weight_decay, fused=True
        )

    def __call__(self, x: Tensor) -> Tensor:
        """(S, ..., N, D) -> (S, ..., N, O)."""
        named = self.named()
        if self._form.identity is not None:
            identity = named["identity.weight"].view(len(x), *[1] * (x.dim() - 3), *x.shape[-2:-1], -1)
            x = torch.cat([x, identity.expand(*x.shape[:-1], -1)], dim=-1)
        hidden = x.flatten(1, -2)
        for path, layer in self._form.backbone.layers.named_children():
            hidden = layer.activate(_linear(hidden, named, f"backbone.layers.{path}"))
        out: Tensor = _linear(hidden, named, "head").unflatten(1, x.shape[1:-1])
        return out

    def named(self) -> dict[str, Tensor]:
        """Views of the weights by name: (S, ...)."""
        parts = self.weights.split([shape.numel() for shape in self._shapes.values()], dim=1)
        return {
            name: part.view(len(self.weights), *shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the following steps."""
        self.adam.param_groups[0]["lr"] = rate

    def zero_gradients(self) -> None:
        """Discard the gradients."""
        self.weights.grad = None

    def step(self) -> Tensor:
        """Apply the gradients; return every seed's norm (S,) before clipping."""
        assert self.weights.grad is not None, "call backward() first"
        norms: Tensor = torch.linalg.vector_norm(self.weights.grad, dim=1)
        if self._max_norm:
            self.weights.grad.mul_((self._max_norm / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))
        self.adam.step()
        return norms


class StackedScale:
    """The value scales (PopArt) of S seeds; see value_scale.py."""

    def __init__(self, seeds: int, device: torch.device) -> None:
        self._mean = torch.zeros(seeds, dtype=torch.float64, device=device)
        self._variance = torch.ones(seeds, dtype=torch.float64, device=device)
        self._updates = 0

    def normalise(self, values: Tensor) -> Tensor:
        """Values (S, ...) on the critic's scale."""
        return ((values - _of_seeds(self._mean, values)) / _of_seeds(self._std, values)).float()

    def denormalise(self, values: Tensor) -> Tensor:
        """Values (S, ...) on the rewards' scale."""
        return (values * _of_seeds(self._std, values) + _of_seeds(self._mean, values)).float()

    @torch.no_grad()
    def update(self, returns: Tensor, critics: StackedNetworks) -> None:
        """Add another iteration's returns (S, ...), and preserve each critic's value of each state."""
        mean, std = self._mean, self._std
        self._updates += 1
        weight = max(1 / self._updates, SLOWEST)
        rows = returns.flatten(1).double()
        shift = rows.mean(1) - mean
        self._mean = mean + weight * shift
        spread = rows.var(1, correction=0) + (1 - weight) * shift.square()
        self._variance = self._variance + weight * (spread - self._variance)
        named = critics.named()
        matrix, bias = named["head.weight"], named["head.bias"]
        matrix.mul_(_of_seeds(std / self._std, matrix))
        bias.mul_(_of_seeds(std, bias)).add_(_of_seeds(mean - self._mean, bias)).div_(
            _of_seeds(self._std, bias)
        )

    @property
    def _std(self) -> Tensor:
        return self._variance.clamp_min(SMALLEST).sqrt()


def _linear(x: Tensor, named: dict[str, Tensor], path: str) -> Tensor:
    """(S, M, D) -> (S, M, O) by every seed's own layer."""
    return torch.baddbmm(named[f"{path}.bias"].unsqueeze(1), x, named[f"{path}.weight"].transpose(1, 2))


def _of_seeds(numbers: Tensor, like: Tensor) -> Tensor:
    """Numbers (S,) in fp32 for tensors (S, ...)."""
    return numbers.to(torch.float32).view(-1, *[1] * (like.dim() - 1))

"""The gradient of a minibatch by role, if several roles share a policy: which role drives the update.

The minibatch's micro-batches are made role by role, and the accumulated gradient is read after each role. That costs no further pass;
the sum of the gradients differs from that of mixed micro-batches only by rounding.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training_core.llm.learning.packing import MicroBatch
from training_core.types import Group

MakePieces = Callable[[Sequence[int]], list[MicroBatch]]
"""Indices of groups -> their micro-batches, weighted as in the whole minibatch."""


class RoleGradients:
    """Reads the gradients of one minibatch by role."""

    def __init__(self, groups: Sequence[Group], share: Sequence[int], make: MakePieces) -> None:
        """`share`: indices of the minibatch's groups."""
        self.pieces: list[MicroBatch] = []
        """Micro-batches, role by role."""
        self._ends: dict[int, str] = {}
        """Number of micro-batches up to the end of a role -> role."""
        self._tokens: dict[str, int] = {}
        self._gradients: dict[str, Tensor] = {}
        for role in dict.fromkeys(groups[index].role for index in share):
            own = [index for index in share if groups[index].role == role]
            self.pieces += make(own)
            self._ends[len(self.pieces)] = role
            self._tokens[role] = sum(
                answer.trained_tokens for index in own for answer in groups[index].answers
            )

    def read(self, done: int, model: PreTrainedModel, scale: float) -> None:
        """Read the gradient after `done` micro-batches. `scale`: factor on the loss (fp16)."""
        role = self._ends.get(done)
        if role is None:
            return
        accumulated = _flat(model) / scale
        self._gradients[role] = accumulated - sum(self._gradients.values(), torch.zeros_like(accumulated))

    def metrics(self) -> dict[str, float]:
        """By role: share of the gradient, g_role · g / |g|², its norm, and the share of the trained tokens. For each pair the cosine.

        The shares of all roles sum to 1. That of a role can be negative, if it points against the others.
        """
        if len(self._gradients) < 2:
            return {}
        whole = sum(self._gradients.values(), torch.zeros_like(next(iter(self._gradients.values()))))
        square, tokens = float(whole @ whole), sum(self._tokens.values())
        if not 0 < square < float("inf"):
            return {}
        values: dict[str, float] = {}
        for role, gradient in self._gradients.items():
            values[f"{role}/grad_share"] = float(gradient @ whole) / square
            values[f"{role}/role_grad_norm"] = float(gradient.norm())
            values[f"{role}/token_share"] = self._tokens[role] / max(tokens, 1)
        return values | _cosines(self._gradients)


def _cosines(gradients: Mapping[str, Tensor]) -> dict[str, float]:
    values = {}
    for (one, first), (other, second) in combinations(sorted(gradients.items()), 2):
        norms = float(first.norm() * second.norm())
        if norms > 0:
            values[f"{one}/{other}/grad_cosine"] = float(first @ second) / norms
    return values


def _flat(model: PreTrainedModel) -> Tensor:
    """The gradients of all trained weights as one vector; zeros for those without."""
    trained = (weight for weight in model.parameters() if weight.requires_grad)
    return torch.cat([
        (torch.zeros_like(weight) if weight.grad is None else weight.grad).detach().float().flatten()
        for weight in trained
    ])  # fmt: skip

"""The distribution of an actor's outputs: over choices, or over continuous actions within bounds.

Letters: O outputs, A choices or components of a continuous action, K sets of choices. Training uses "raw" actions:
the choice (...), a choice from each set (..., K), or the Gaussian sample before squashing (..., A).
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from training_core.marl.environments.base import ActionKind, Choices, Continuous, SeveralChoices

MASKED_LOGIT = -1e9
"""Logit of a masked choice: finite, so that an agent without allowed choices causes no NaN."""
FEW_CHOICES = 16
"""Number of choices up to which a softmax is faster with the choices as the first axis."""
LOG_STD = (-5.0, 2.0)
"""Bounds of a Gaussian's log standard deviation."""
NODES, REACH = 17, 4.0
"""Nodes and range of the entropy's quadrature: the gradient's error is 0.2 % at a standard deviation of 2.7 and 1.6 %
at the upper bound, 7.4.
"""


def _quadrature() -> list[tuple[float, float]]:
    """Nodes and weights of an expectation over the standard Gaussian by the trapezoidal rule, which is accurate to many digits here."""
    places = np.linspace(-REACH, REACH, NODES)
    weights = np.exp(-(places**2) / 2)
    return list(zip(places.tolist(), (weights / weights.sum()).tolist(), strict=True))


QUADRATURE = _quadrature()


class Head(Protocol):
    """A family of distributions."""

    outputs: int
    """O."""

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """The noise for `act` for `shape` agents: (*shape, A)."""
        ...

    def act(self, out: Tensor, noise: Tensor | None) -> Tensor:
        """Raw actions for outputs (..., O): drawn with `noise` (..., A), or the most likely ones if it is None."""
        ...

    def log_prob(self, out: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability (density) of actions, and the entropy of their distribution: both (...)."""
        ...

    def actions(self, raw: Tensor) -> Tensor:
        """The environment's actions for raw actions, on their device."""
        ...


def masked(out: Tensor, mask: Tensor | None) -> Tensor:
    """Logits with masked choices (mask False) set to MASKED_LOGIT."""
    return out if mask is None else out.masked_fill(~mask, MASKED_LOGIT)


class ChoiceHead:
    """Categorical over logits."""

    def __init__(self, actions: Choices) -> None:
        self.outputs = actions.count

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Gumbel noise: the largest of logits + noise is a draw from their softmax."""
        return (
            torch.empty(*shape, self.outputs, device=generator.device)
            .exponential_(generator=generator)
            .log_()
            .neg_()
        )

    def act(self, out: Tensor, noise: Tensor | None) -> Tensor:
        return (out if noise is None else out + noise).argmax(-1)

    def log_prob(self, out: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        logs, axis = out.float(), -1
        if self.outputs <= FEW_CHOICES:
            logs, axis = logs.movedim(-1, 0).contiguous(), 0
        logs = F.log_softmax(logs, dim=axis)
        entropy = -(logs.exp() * logs).sum(axis)
        return logs.gather(axis, raw.unsqueeze(axis)).squeeze(axis), entropy

    def actions(self, raw: Tensor) -> Tensor:
        return raw


class SeveralChoicesHead:
    """A categorical for each set of choices, drawn independently: log-probabilities and entropies are sums over the sets."""

    def __init__(self, actions: SeveralChoices) -> None:
        self._sets = [ChoiceHead(Choices(count)) for count in actions.counts]
        self._counts = list(actions.counts)
        self.outputs = sum(actions.counts)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.cat([one.noise(shape, generator) for one in self._sets], dim=-1)

    def act(self, out: Tensor, noise: Tensor | None) -> Tensor:
        drawn = out if noise is None else out + noise
        return torch.stack([part.argmax(-1) for part in drawn.split(self._counts, dim=-1)], dim=-1)

    def log_prob(self, out: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        parts = zip(self._sets, out.split(self._counts, dim=-1), raw.unbind(-1), strict=True)
        logs, entropies = zip(*[one.log_prob(own, chosen) for one, own, chosen in parts], strict=True)
        return torch.stack(logs).sum(0), torch.stack(entropies).sum(0)

    def actions(self, raw: Tensor) -> Tensor:
        return raw


class GaussianHead:
    """Diagonal Gaussian, squashed into the bounds by tanh: action = middle + half * tanh(raw).

    The density of the action is the Gaussian's divided by the slope half * (1 - tanh(raw)^2) of the squashing
    (Haarnoja et al. 2018, appendix C). The entropy is that of the action: the Gaussian's plus E[log slope], where the
    expectation over the current mean and standard deviation is computed by quadrature. Its gradient therefore equals
    the expected gradient of a reparametrised estimate (which SAC, Brax and TorchRL use). A component without two
    finite bounds is not squashed.

    `widths`: number of components of each of the N agents; further ones are padding without density and entropy.
    """

    def __init__(self, actions: Continuous, widths: Sequence[int] = ()) -> None:
        low, high = torch.tensor(actions.low), torch.tensor(actions.high)
        self.outputs = 2 * len(actions.low)
        self.bounded = torch.isfinite(low) & torch.isfinite(high)
        self.middle = torch.where(self.bounded, (low + high) / 2, 0.0)
        self.half = torch.where(self.bounded, (high - low) / 2, 1.0)
        padded = any(width < len(actions.low) for width in widths)
        self.used = torch.arange(len(actions.low)) < torch.tensor(widths)[:, None] if padded else None
        """(N, A); None without padding."""

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.empty(*shape, self.outputs // 2, device=generator.device).normal_(generator=generator)

    def act(self, out: Tensor, noise: Tensor | None) -> Tensor:
        mean, log_std = self._parts(out)
        return mean if noise is None else mean + log_std.exp() * noise

    def log_prob(self, out: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self._parts(out.float())
        z = (raw - mean) * (-log_std).exp()
        density = -0.5 * z.square() - log_std - 0.5 * math.log(2 * math.pi)
        entropy = log_std + 0.5 * (1 + math.log(2 * math.pi)) + self._expected_log_slope(mean, log_std)
        return self._sum(density - self._log_slope(raw)), self._sum(entropy)

    def actions(self, raw: Tensor) -> Tensor:
        bounded = self.bounded.to(raw.device)
        within = torch.where(bounded, torch.tanh(raw), raw)
        return (self.middle.to(raw.device) + self.half.to(raw.device) * within).float()

    def _parts(self, out: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = out.chunk(2, dim=-1)
        return mean, _Clamp.apply(log_std)  # type: ignore[no-untyped-call]

    def _sum(self, numbers: Tensor) -> Tensor:
        """Sum over an agent's components (..., A)."""
        if self.used is not None:
            numbers = torch.where(self.used.to(numbers.device), numbers, 0.0)
        return numbers.sum(-1)

    def _expected_log_slope(self, mean: Tensor, log_std: Tensor) -> Tensor:
        """E[log slope] under the Gaussian (..., A)."""
        std = log_std.exp()
        return torch.stack([w * self._log_slope(mean + z * std) for z, w in QUADRATURE]).sum(0)

    def _log_slope(self, raw: Tensor) -> Tensor:
        """log d action / d raw; log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2x)) without loss of precision."""
        squashed = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        slope = torch.where(self.bounded.to(raw.device), squashed, 0.0)
        return slope + self.half.to(raw.device).log()


class _Clamp(torch.autograd.Function):
    """A Gaussian's log standard deviation within its bounds. Outside them, only gradients that lead back are passed.

    torch.clamp passes no gradient, so a value outside would stay there.
    """

    @staticmethod
    def forward(ctx: Any, log_std: Tensor) -> Tensor:
        ctx.save_for_backward(log_std)
        return log_std.clamp(*LOG_STD)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (log_std,), (gradient,) = ctx.saved_tensors, gradients
        low, high = LOG_STD
        outwards = (log_std < low) & (gradient > 0) | (log_std > high) & (gradient < 0)
        return gradient.masked_fill(outwards, 0.0)


def make_head(actions: ActionKind, widths: Sequence[int] = ()) -> Head:
    """The head for a type of actions; `widths` of continuous ones as in GaussianHead."""
    if isinstance(actions, Choices):
        return ChoiceHead(actions)
    return (
        SeveralChoicesHead(actions) if isinstance(actions, SeveralChoices) else GaussianHead(actions, widths)
    )

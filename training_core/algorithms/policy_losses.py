"""Policy losses by name. T response tokens of R responses, flat over a batch; all pure functions.

A loss takes the sampled tokens and the bounds, and returns a loss per token (T,) and whether the token was clipped
(T,). How tokens are averaged is the caller's weight per token.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from training_core.algorithms.losses import clipped_policy_loss


@dataclass(frozen=True)
class Tokens:
    """The inputs of a policy loss."""

    logprobs: Tensor
    """(T,) of the policy under training; with gradient."""
    old_logprobs: Tensor
    """(T,) of the policy in the ratio's denominator."""
    advantages: Tensor
    """(T,)"""
    lengths: Tensor
    """(R,) tokens per response; the responses are concatenated."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of the probability ratio."""

    low: float
    high: float
    dual: float = 0.0


PolicyLoss = Callable[[Tokens, Bounds], tuple[Tensor, Tensor]]


def clip(tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """PPO's clipped surrogate, token by token."""
    return clipped_policy_loss(
        tokens.logprobs - tokens.old_logprobs, tokens.advantages, bounds.low, bounds.high, bounds.dual
    )


def sequence_clip(tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """GSPO (arXiv 2507.18071, equations 5 to 7): the ratio of a response is the geometric mean of its tokens' ratios.

    Written as in its token-level variant (equation 14): the value is the sequence's ratio, and the gradient flows
    through each token's logprob, so advantages may differ within a response.
    """
    difference = tokens.logprobs - tokens.old_logprobs
    of_sequence = sequence_means(difference.detach(), tokens.lengths)
    carried = of_sequence + tokens.logprobs - tokens.logprobs.detach()
    return clipped_policy_loss(carried, tokens.advantages, bounds.low, bounds.high, bounds.dual)


def cispo(tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """CISPO (MiniMax-M1, arXiv 2506.13585, equation 4): -sg(clip(r, 1 - low, 1 + high)) A log pi."""
    ratios = (tokens.logprobs.detach() - tokens.old_logprobs).exp()
    weights = ratios.clamp(1.0 - bounds.low, 1.0 + bounds.high)
    return -weights * tokens.advantages * tokens.logprobs, weights != ratios


def reinforce(tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """-A log pi (Williams 1992); nothing is clipped, so data should be fresh."""
    return -tokens.advantages * tokens.logprobs, torch.zeros_like(tokens.logprobs, dtype=torch.bool)


POLICY_LOSSES: dict[str, PolicyLoss] = {
    "clip": clip,
    "sequence_clip": sequence_clip,
    "cispo": cispo,
    "reinforce": reinforce,
}


def sequence_means(values: Tensor, lengths: Tensor) -> Tensor:
    """Each token's mean (T,) of values (T,) over its own response; lengths (R,)."""
    owner = torch.repeat_interleave(torch.arange(len(lengths), device=values.device), lengths)
    sums = torch.zeros(len(lengths), dtype=values.dtype, device=values.device).index_add_(0, owner, values)
    return (sums / lengths.clamp(min=1))[owner]

"""Losses of PPO for all kinds of agents, policy losses by `algorithm.policy_loss`, and penalties, weights and corrections of tokens.

T response tokens of R responses, flat over a batch. All functions are pure. A policy loss takes the sampled tokens and the bounds, and
returns a loss per token (T,) and whether the token was clipped (T,); how tokens are averaged is the caller's weight per token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """The sampled tokens."""

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


def sequence_clip(tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """GSPO (arXiv 2507.18071, equations 5 to 7): the ratio of a response is the geometric mean of its tokens' ratios.

    Written as in its token-level variant (equation 14): the value is the sequence's ratio, and the gradient flows
    through each token's logprob, so advantages may differ within a response.
    """
    difference = tokens.logprobs - tokens.old_logprobs
    of_sequence = sequence_means(difference.detach(), tokens.lengths)
    carried = of_sequence + tokens.logprobs - tokens.logprobs.detach()
    return clipped_policy_loss(carried, tokens.advantages, bounds.low, bounds.high, bounds.dual)


def sequence_means(values: Tensor, lengths: Tensor) -> Tensor:
    """Each token's mean (T,) of values (T,) over its own response; lengths (R,)."""
    owner = torch.arange(len(lengths), device=values.device).repeat_interleave(
        lengths, output_size=len(values)
    )
    sums = torch.zeros(len(lengths), dtype=values.dtype, device=values.device).index_add_(0, owner, values)
    return (sums / lengths.clamp(min=1))[owner]


def cispo(tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """CISPO (MiniMax-M1, arXiv 2506.13585, equation 4): -sg(clip(r, 1 - low, 1 + high)) A log pi."""
    ratios = (tokens.logprobs.detach() - tokens.old_logprobs).exp()
    weights = ratios.clamp(1.0 - bounds.low, 1.0 + bounds.high)
    return -weights * tokens.advantages * tokens.logprobs, weights != ratios


def clip(tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """PPO's clipped surrogate, token by token."""
    return clipped_policy_loss(
        tokens.logprobs - tokens.old_logprobs, tokens.advantages, bounds.low, bounds.high, bounds.dual
    )


def reinforce(tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """-A log pi (Williams 1992); nothing is clipped, so data should be fresh."""
    return -tokens.advantages * tokens.logprobs, torch.zeros_like(tokens.logprobs, dtype=torch.bool)


POLICY_LOSSES: dict[str, Callable[[Tokens, Bounds], tuple[Tensor, Tensor]]] = {
    "clip": clip,
    "sequence_clip": sequence_clip,
    "cispo": cispo,
    "reinforce": reinforce,
}


Correction = Literal["none", "truncate", "mask", "decoupled"]


def correction_weights(
    start_logprobs: Tensor, sampler_logprobs: Tensor, kind: Correction, floor: float, cap: float
) -> Tensor:
    """Weights (T,), without gradient, of the loss of tokens that another version or engine sampled than the policy at the start of
    the update: w = pi_start / pi_sampler. Masked tokens still count in the average's denominator.

    truncate: min(w, cap), truncated importance sampling (TIS; Yao et al. 2025, "Your efficient RL framework secretly
    brings you off-policy RL training"). mask: w where floor <= w <= cap, else 0 (IcePop; Ling team 2025, "Small leak
    can sink a great ship"). decoupled: w where w <= cap, else 0, which with the ratio taken against pi_start is AReaL's
    decoupled PPO objective (arXiv 2505.24298, equation 5). none: 1.
    """
    weights = (start_logprobs - sampler_logprobs).detach().exp()
    if kind == "truncate":
        return weights.clamp(max=cap)
    if kind == "mask":
        return weights * ((weights >= floor) & (weights <= cap))
    if kind == "decoupled":
        return weights * (weights <= cap)
    return weights.new_ones(weights.shape)


KlEstimator = Literal["k1", "k2", "k3"]


def clipped_policy_loss(
    log_ratios: Tensor, advantages: Tensor, clip_low: float, clip_high: float, dual_clip: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Loss per sample and whether it was clipped, both of the shape of log_ratios (logprob - old logprob) and advantages.

    max(-r A, -clip(r, 1 - low, 1 + high) A) with r = exp(log ratio) (PPO, arXiv 1707.06347, equation 7; separate
    bounds as in DAPO, arXiv 2503.14476). With dual_clip c > 0, the loss of samples with negative advantage is at most
    -c A (arXiv 1912.09729).
    """
    ratios = log_ratios.exp()
    unclipped = -ratios * advantages
    bounded = -ratios.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages
    loss = torch.maximum(unclipped, bounded)
    clipped = bounded > unclipped
    if dual_clip > 0.0:
        most = -dual_clip * advantages
        cut = (advantages < 0) & (loss > most)
        loss = torch.where(cut, most, loss)
        clipped = clipped | cut
    return loss, clipped


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """(V - R)^2 per sample; with `clip`, the larger of that and the loss of V clipped to within `clip` of the old value.

    The value loss of OpenAI's PPO, which bounds the change of a value in one update.
    """
    unclipped = (values - returns).square()
    if clip is None:
        return unclipped
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum(unclipped, (clipped - returns).square())


def kl_penalty(logprobs: Tensor, reference_logprobs: Tensor, estimator: KlEstimator) -> Tensor:
    """KL(policy || reference) per token (T,), estimated on the policy's own samples (Schulman 2020).

    k1 = d, k2 = d^2 / 2, k3 = exp(-d) - 1 + d with d = logprob - reference. As values, k1 and k3 have the KL as their
    mean (k3 with less variance, and never below 0) and k2 approximately. As differentiated loss terms on samples of
    the policy itself, their mean gradients differ: k2's is that of KL(policy || reference); k3's is that of
    KL(reference || policy), which grows as the policy avoids what the reference would do; k1's is zero, so it only
    adds noise (it is meant for a penalty inside the reward).
    """
    difference = logprobs - reference_logprobs
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return difference.square() / 2
    return (-difference).exp() - 1 + difference


def token_entropies(log_probs: Tensor) -> Tensor:
    """Entropy in nats (T,) of log-probabilities (T, V); truncated tokens (-inf) contribute 0."""
    finite = log_probs.masked_fill(log_probs == -torch.inf, 0.0)
    return -(log_probs.exp() * finite).sum(dim=-1)


def token_weights(lengths: Tensor, average: Literal["token", "sequence"]) -> Tensor:
    """Weights (T,) that sum to 1, for concatenated responses of these lengths (R,).

    token: every token has the same weight; sequence: every response has the same weight, divided among its tokens.
    """
    if average == "token":
        total = int(lengths.sum())
        return torch.full((total,), 1.0 / max(total, 1))
    return (1.0 / (lengths * len(lengths))).float().repeat_interleave(lengths)

"""Losses of PPO for all kinds of agents, and penalties and weights of tokens.

T response tokens, flat over a batch. All functions are pure; weights determine how tokens are averaged.
"""

from typing import Literal

import torch
from torch import Tensor

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

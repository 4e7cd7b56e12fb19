"""Weights of tokens that were not sampled by the policy at the start of the update (but by another version or
engine).

w = pi_start / pi_sampler per token, (T,). Masked tokens still count in the average's denominator.
"""

from typing import Literal

from torch import Tensor

Correction = Literal["none", "truncate", "mask", "decoupled"]


def correction_weights(
    start_logprobs: Tensor, sampler_logprobs: Tensor, kind: Correction, floor: float, cap: float
) -> Tensor:
    """Weights (T,), without gradient, of the loss of each token.

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

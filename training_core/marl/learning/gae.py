"""Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438), with episodes that end in two ways."""

import torch
from torch import Tensor


def generalised_advantages(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    discount: float,
    gae_lambda: float,
    failed: Tensor | None = None,
) -> Tensor:
    """All arguments and the result are (T, ...).

    next_values[t] is V of the state that step t led to: the episode's final state if it was truncated there, not the
    first state of the next episode. A terminated step has no next value; the trace is cut at both kinds of ends. A
    failed step (which is also truncated) has no advantage: the step before it is followed by V of the state in which
    it failed.

        delta_t = r_t + discount * V(s_{t+1}) * (1 - terminated_t) - V(s_t)
        A_t     = delta_t + discount * gae_lambda * (1 - terminated_t) * (1 - truncated_t) * A_{t+1}
    """
    delta = rewards + discount * next_values * ~terminated - values
    if failed is not None:
        delta = delta.masked_fill(failed, 0.0)
    carry = discount * gae_lambda * ~(terminated | truncated)
    result = torch.empty_like(delta)
    running = torch.zeros_like(delta[0])
    for t in range(len(delta) - 1, -1, -1):
        running = torch.addcmul(delta[t], carry[t], running)
        result[t] = running
    return result


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(returns - values) / Var(returns): 1 for perfect values, 0 for values no better than a constant; 0 without variance."""
    spread = returns.var(correction=0)
    return float(1 - (returns - values).var(correction=0) / spread) if spread > 0 else 0.0

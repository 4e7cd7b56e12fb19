"""Generalised advantage estimation (GAE; Schulman et al. 2016, arXiv 1506.02438): for steps of environments, and token-level advantages."""

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
    carry = discount * gae_lambda * (~(terminated | truncated)).to(delta.dtype)
    result = torch.empty_like(delta)
    running = torch.zeros_like(delta[0])
    for t in range(len(delta) - 1, -1, -1):
        running = torch.addcmul(delta[t], carry[t], running)
        result[t] = running
    return result


def token_advantages(
    rewards: Tensor, values: Tensor, lengths: Tensor, discount: float, gae_lambda: float
) -> Tensor:
    """Advantages (T,) of the tokens of R concatenated responses of these lengths (R,), from rewards and values (T,).

    A token is a step: its state is the preceding text. The response's last token terminates the episode (nothing is
    bootstrapped, not even for a response truncated at its limit). The values' targets are advantages + values.
    Computed in fp64.
    """
    if not len(rewards):
        return rewards
    ends = lengths.cumsum(0)
    numbers = torch.arange(len(lengths), device=lengths.device)
    response = numbers.repeat_interleave(lengths, output_size=len(rewards))
    position = torch.arange(len(rewards), device=lengths.device) - (ends - lengths)[response]
    shape = (int(lengths.max()) + 1, len(lengths))  # one row more, so that every position has a next one

    def by_response(tokens: Tensor) -> Tensor:
        table = tokens.new_zeros(shape, dtype=torch.float64)
        table[position, response] = tokens.double()
        return table

    table = by_response(values)
    last = torch.arange(shape[0], device=lengths.device)[:, None] >= lengths - 1
    advantages = generalised_advantages(
        by_response(rewards), table, table.roll(-1, 0), last, torch.zeros_like(last), discount, gae_lambda
    )
    return advantages[position, response].to(rewards.dtype)


def last_token_rewards(scores: Tensor, lengths: Tensor) -> Tensor:
    """Rewards (T,): each response's score (R,) on its last token, 0 on the others. A response without tokens has none."""
    rewards = scores.new_zeros(int(lengths.sum()))
    some = lengths > 0
    rewards[lengths.cumsum(0)[some] - 1] = scores[some]
    return rewards


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(returns - values) / Var(returns): 1 for perfect values, 0 for values no better than a constant; 0 without variance."""
    spread = returns.var(correction=0)
    return float(1 - (returns - values).var(correction=0) / spread) if spread > 0 else 0.0

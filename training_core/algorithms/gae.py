"""The critic's part of PPO: token advantages from values, and the value loss.

T tokens of R concatenated responses; `lengths` (R,) are their lengths. Pure functions. A token is a step: its state
is the preceding text, and the response's last token ends the episode (nothing is bootstrapped, not even for a
response truncated at its limit).
"""

import torch
from torch import Tensor


def last_token_rewards(scores: Tensor, lengths: Tensor) -> Tensor:
    """Rewards (T,): each response's score (R,) on its last token, 0 on the others. A response without tokens has none."""
    rewards = scores.new_zeros(int(lengths.sum()))
    some = lengths > 0
    rewards[lengths.cumsum(0)[some] - 1] = scores[some]
    return rewards


def generalised_advantages(
    rewards: Tensor, values: Tensor, lengths: Tensor, discount: float, gae_lambda: float
) -> Tensor:
    """Generalised advantage estimates (T,) of rewards (T,) and values (T,) (Schulman et al., arXiv 1506.02438, equation 16).

    A_t = sum over l of (discount x gae_lambda)^l delta_(t+l) within the response, with
    delta_t = r_t + discount x V_(t+1) - V_t and V = 0 after its last token. The values' targets are A + V.
    """
    if not len(rewards):
        return rewards
    ends = lengths.cumsum(0)
    last = torch.zeros_like(rewards, dtype=torch.bool)
    last[ends[lengths > 0] - 1] = True
    following = torch.where(last, 0.0, values.roll(-1))
    deltas = (rewards + discount * following - values).tolist()
    decay, advantage = discount * gae_lambda, 0.0
    found = [0.0] * len(deltas)
    for place, (delta, ends_here) in reversed(list(enumerate(zip(deltas, last.tolist(), strict=True)))):
        advantage = delta + (0.0 if ends_here else decay * advantage)
        found[place] = advantage
    return torch.tensor(found, dtype=rewards.dtype, device=rewards.device)


def value_losses(values: Tensor, old_values: Tensor, returns: Tensor, clip: float) -> Tensor:
    """Loss per token (T,): half the squared error of values (T,), or of values clipped to within `clip` of the old
    ones if that is larger.

    The value loss of OpenAI's PPO, which bounds the change of a value in one update; clip 0 disables the bound.
    """
    errors = (values - returns).square()
    if clip > 0.0:
        held = old_values + (values - old_values).clamp(-clip, clip)
        errors = torch.maximum(errors, (held - returns).square())
    return errors / 2

"""GSPO's loss: one probability ratio for each response."""

import torch
from torch import Tensor

from training_core.algorithms.loss_inputs import Bounds, Tokens
from training_core.algorithms.losses import clipped_policy_loss


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

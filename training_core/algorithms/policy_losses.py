"""Policy losses by `algorithm.policy_loss`; all pure functions.

A loss takes the sampled tokens and the bounds, and returns a loss per token (T,) and whether the token was clipped
(T,). How tokens are averaged is the caller's weight per token.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from training_core.algorithms.cispo.loss import cispo
from training_core.algorithms.gspo.loss import sequence_clip
from training_core.algorithms.loss_inputs import Bounds, Tokens
from training_core.algorithms.losses import clipped_policy_loss


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

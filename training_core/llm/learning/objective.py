"""What an algorithm makes of a micro-batch's tokens: loss per token, before it is averaged.

T response tokens of the micro-batch.
"""

from dataclasses import dataclass

from torch import Tensor

from training_core.algorithms.corrections import correction_weights
from training_core.algorithms.losses import kl_penalty
from training_core.algorithms.policy_losses import POLICY_LOSSES, Bounds, Tokens
from training_core.config.algorithms import Algorithm, Ppo
from training_core.llm.learning.charging import charges_kl
from training_core.llm.learning.micro_batches import MicroBatch


@dataclass(frozen=True)
class TokenLosses:
    """Per token (T,)."""

    losses: Tensor
    clipped: Tensor
    ratios: Tensor
    """Policy over the one that the update began with, or over the sampler where that is not asked for; no gradient."""
    weights: Tensor | None
    """Of the correction for another sampler, where there is one."""


def wants_start(algorithm: Algorithm) -> bool:
    """Whether a pass over all data comes first, by the policy as it is when the update begins."""
    return isinstance(algorithm, Ppo) or algorithm.correction != "none" or charges_kl(algorithm)


def kl_costs(logprobs: Tensor, base: Tensor, algorithm: Algorithm) -> Tensor:
    """What the divergence takes from each token's reward (T,); logprobs of policy and base (T,) before truncation."""
    return algorithm.kl_coefficient * kl_penalty(logprobs, base, algorithm.kl_estimator)


def token_losses(piece: MicroBatch, logprobs: Tensor, algorithm: Algorithm) -> TokenLosses:
    """The policy loss of each token by its logprobs (T,) under the policy as it is now."""
    corrected = algorithm.correction != "none"
    start = piece.start_logprobs if corrected and piece.start_logprobs is not None else piece.old_logprobs
    losses, clipped = POLICY_LOSSES[algorithm.policy_loss](
        Tokens(logprobs, start, piece.advantages, piece.lengths),
        Bounds(algorithm.clip_low, algorithm.clip_high, algorithm.dual_clip),
    )
    ratios = (logprobs.detach() - start).exp()
    if not corrected:
        return TokenLosses(losses, clipped, ratios, None)
    weights = correction_weights(
        start, piece.old_logprobs, algorithm.correction, algorithm.correction_floor, algorithm.correction_cap
    )
    return TokenLosses(losses * weights, clipped, ratios, weights)

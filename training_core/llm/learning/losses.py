"""An algorithm's loss per token of a micro-batch, before averaging. T response tokens of the micro-batch."""

from dataclasses import dataclass

from torch import Tensor

from training_core.algorithms.hooks import AlgorithmHooks, checked_loss
from training_core.algorithms.losses import Bounds, Tokens, correction_weights
from training_core.llm.learning.packing import MicroBatch


@dataclass(frozen=True)
class TokenLosses:
    """Losses per token (T,)."""

    losses: Tensor
    clipped: Tensor
    ratios: Tensor
    """Ratio of the policy to that at the start of the update, or to the sampler if the former is not needed; no gradient."""
    weights: Tensor | None
    """Correction weights for another sampler, if used."""


def token_losses(piece: MicroBatch, logprobs: Tensor, hooks: AlgorithmHooks) -> TokenLosses:
    """The policy loss of each token from its logprobs (T,) under the current policy. Raises ConfigError if custom code
    returns a wrong shape.
    """
    algorithm = hooks.algorithm
    corrected = algorithm.correction != "none"
    start = (
        piece.proximal_logprobs
        if corrected and piece.proximal_logprobs is not None
        else piece.behaviour_logprobs
    )
    result = hooks.policy_loss(
        Tokens(logprobs, start, piece.advantages, piece.lengths),
        Bounds(algorithm.clip_low, algorithm.clip_high, algorithm.dual_clip),
    )
    losses, clipped = checked_loss(result, len(logprobs), hooks)
    ratios = (logprobs.detach() - start).exp()
    if not corrected:
        return TokenLosses(losses, clipped, ratios, None)
    weights = correction_weights(
        start,
        piece.behaviour_logprobs,
        algorithm.correction,
        algorithm.correction_floor,
        algorithm.correction_cap,
    )
    return TokenLosses(losses * weights, clipped, ratios, weights)

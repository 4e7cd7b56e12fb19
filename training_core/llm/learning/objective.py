"""An algorithm's loss per token of a micro-batch, before averaging.

T response tokens of the micro-batch.
"""

from dataclasses import dataclass

from torch import Tensor

from training_core.algorithms.config import ActorCritic
from training_core.algorithms.hooks import AlgorithmHooks, checked_loss
from training_core.algorithms.losses import Bounds, Tokens, correction_weights, kl_penalty
from training_core.algorithms.registry import Algorithm
from training_core.llm.learning.kl_penalty import has_kl_reward
from training_core.llm.learning.micro_batches import MicroBatch


@dataclass(frozen=True)
class TokenLosses:
    """Losses per token (T,)."""

    losses: Tensor
    clipped: Tensor
    ratios: Tensor
    """Ratio of the policy to that at the start of the update, or to the sampler if the former is not needed; no gradient."""
    weights: Tensor | None
    """Correction weights for another sampler, if used."""


def needs_initial_pass(algorithm: Algorithm) -> bool:
    """Whether the update starts with a pass over all data by the policy at its start."""
    return isinstance(algorithm, ActorCritic) or algorithm.correction != "none" or has_kl_reward(algorithm)


def kl_costs(logprobs: Tensor, base: Tensor, algorithm: Algorithm) -> Tensor:
    """The KL penalty on each token's reward (T,); logprobs of policy and base (T,) are before truncation."""
    return algorithm.kl_coefficient * kl_penalty(logprobs, base, algorithm.kl_estimator)


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

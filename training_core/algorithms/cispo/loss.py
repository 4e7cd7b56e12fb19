"""CISPO's loss: the clipped ratio is a weight without gradient."""

from torch import Tensor

from training_core.algorithms.loss_inputs import Bounds, Tokens


def cispo(tokens: Tokens, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """CISPO (MiniMax-M1, arXiv 2506.13585, equation 4): -sg(clip(r, 1 - low, 1 + high)) A log pi."""
    ratios = (tokens.logprobs.detach() - tokens.old_logprobs).exp()
    weights = ratios.clamp(1.0 - bounds.low, 1.0 + bounds.high)
    return -weights * tokens.advantages * tokens.logprobs, weights != ratios

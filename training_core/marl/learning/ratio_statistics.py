"""Statistics of the probability ratio of an update. All tensors of one call have one shape."""

import torch
from torch import Tensor


def mean(x: Tensor, weights: Tensor | None) -> Tensor:
    """Weighted mean; None gives all the same weight."""
    return x.mean() if weights is None else (x * weights).sum() / weights.sum().clamp_min(1e-8)


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """(r - 1) - log r per sample: unbiased and never below 0 (Schulman, "Approximating KL divergence", 2020)."""
    return log_ratio.exp() - 1 - log_ratio


def ratio_statistics(log_ratio: Tensor, clip: float, weights: Tensor | None) -> Tensor:
    """KL, clipped share, mean of ratios, mean of their squares, largest ratio: (5,), without gradient."""
    log_ratio = log_ratio.detach()
    ratio = log_ratio.exp()
    counted = ratio if weights is None else torch.where(weights > 0, ratio, 0.0)
    return torch.stack(
        [
            mean(approximate_kl(log_ratio), weights),
            mean(((ratio - 1).abs() > clip).float(), weights),
            mean(ratio, weights),
            mean(ratio.square(), weights),
            counted.max(),
        ]
    )

"""From logits to tokens: temperature, truncation, inverse-CDF draws.

N rows, V vocabulary. The learner uses the same `tempered_log_probs`, so that both sides speak of one distribution.
"""

import torch
from torch import Tensor


def tempered_log_probs(logits: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Log-probabilities (..., V) after temperature, then top-k, then top-p; what is cut off has -inf.

    Ties at the border of top-k are kept. Top-p keeps the smallest set of likeliest tokens whose probability
    reaches p (Holtzman et al. 2019, "The curious case of neural text degeneration").
    """
    logits = logits.float()
    if temperature != 1.0:
        logits = logits / temperature
    if 0 < top_k < logits.shape[-1]:
        border = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < border, float("-inf"))
    if top_p < 1.0:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities
        cut = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= top_p)
        logits = logits.masked_fill(cut, float("-inf"))
    return logits.log_softmax(dim=-1)


def draw(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """Tokens (N,) by inverse CDF: the first whose cumulative probability exceeds the row's uniform number (N,)."""
    cumulative = log_probs.double().exp().cumsum(dim=-1)
    target = uniforms.unsqueeze(-1) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1).clamp_max(log_probs.shape[-1] - 1)

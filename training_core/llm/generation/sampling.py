"""From logits to tokens: temperature, truncation, inverse-CDF draws.

N distributions, C draws (several may be from one distribution), V vocabulary. The learner uses the same
`tempered_log_probs`, so both use the same distribution.
"""

import torch
from torch import Tensor

_AT_ONCE = 2**24
"""Maximum double-precision numbers of a draw in memory (128 MiB)."""


def tempered_log_probs(
    logits: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0, keep: Tensor | None = None
) -> Tensor:
    """Log-probabilities (..., V) after temperature, then top-k, then top-p; truncated tokens have -inf.

    Ties at the boundary of top-k are kept. Top-p keeps the smallest set of most likely tokens whose probability
    reaches p (Holtzman et al. 2019, "The curious case of neural text degeneration"). `keep` (..., V) marks tokens
    that are never truncated: a learner's weights have changed, and sampled tokens must keep a probability above zero.
    """
    logits = logits.float()
    if temperature != 1.0:
        logits = logits / temperature
    if 0 < top_k < logits.shape[-1]:
        border = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = _cut(logits, logits < border, keep)
    if top_p < 1.0:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities
        cut = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= top_p)
        logits = _cut(logits, cut, keep)
    return logits.log_softmax(dim=-1)


def draw(log_probs: Tensor, rows: Tensor, uniforms: Tensor) -> Tensor:
    """Tokens (C,) by inverse CDF from distributions (N, V): draw i is from distribution rows[i] with uniforms[i].

    The token is the first whose cumulative probability exceeds the uniform number (double precision), so a truncated
    token is never drawn.
    """
    size = max(_AT_ONCE // log_probs.shape[-1], 1)
    if len(log_probs) <= size and len(rows) <= size:
        return _invert(log_probs.double().exp().cumsum(dim=-1)[rows], uniforms)
    parts = [
        _invert(log_probs[some].double().exp().cumsum(dim=-1), numbers)
        for some, numbers in zip(rows.split(size), uniforms.split(size), strict=True)
    ]
    return torch.cat(parts)


def _invert(cumulative: Tensor, uniforms: Tensor) -> Tensor:
    target = uniforms.unsqueeze(-1) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1).clamp_max(cumulative.shape[-1] - 1)


def _cut(logits: Tensor, cut: Tensor, keep: Tensor | None) -> Tensor:
    return logits.masked_fill(cut if keep is None else cut & ~keep, float("-inf"))

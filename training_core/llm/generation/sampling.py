"""From logits to tokens: temperature, truncation, inverse-CDF draws.

N distributions, C draws (several may be from one distribution), V vocabulary. The learner uses the same
`tempered_log_probs`, so both use the same distribution.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

_BLOCK, _SMALL_VOCABULARY = 512, 2048
"""Tokens of the vocabulary in a block, and the size below which there are no blocks."""
_BELOW_ONE = 1.0 - 2.0**-52


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

    The token is the first whose cumulative probability exceeds the uniform number (in [0, 1), double precision) times the
    sum of all, so a truncated token is never drawn. The search has two levels, the sums of blocks of the vocabulary and the
    tokens of one block: cumulative sums of the whole vocabulary are never in memory. A draw depends on its own distribution
    alone.
    """
    if log_probs.shape[-1] <= _SMALL_VOCABULARY:
        return _first_above(log_probs.double().exp().cumsum(dim=-1)[rows], uniforms.unsqueeze(-1))[0]
    padded = pad(log_probs.exp(), (0, -log_probs.shape[-1] % _BLOCK))
    blocks = padded.unflatten(-1, (-1, _BLOCK))
    sums = blocks.sum(-1, dtype=torch.float64).cumsum(dim=-1)[rows]
    block, target = _first_above(sums, uniforms.unsqueeze(-1))
    below = target - pad(sums, (1, 0)).gather(-1, block.unsqueeze(-1))
    inside = blocks[rows, block].double().cumsum(dim=-1)
    return block * _BLOCK + _first_above(inside, below / inside[:, -1:])[0]


def _first_above(cumulative: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    """For each row the first index (C,) whose cumulative sum (C, K) exceeds a share (C, 1) of the total, and this target (C, 1).

    A target that rounding has moved to the total is moved below it: the indices behind the last sum have no probability.
    """
    total = cumulative[:, -1:]
    target = (shares * total).minimum(total * _BELOW_ONE)
    index = torch.searchsorted(cumulative, target, right=True).squeeze(-1)
    return index.clamp_max(cumulative.shape[-1] - 1), target  # beyond the end where a sum is not a number


def _cut(logits: Tensor, cut: Tensor, keep: Tensor | None) -> Tensor:
    return logits.masked_fill(cut if keep is None else cut & ~keep, float("-inf"))

"""The output layer, and what an update needs of its logits, in chunks: no tensor has all places and the whole vocabulary.

U places that predict a token, T response tokens, V vocabulary size, H hidden size. The vocabulary is the largest size of a
small model: the fp32 logits of 8,192 places and a vocabulary of 152,000 have 5 GB, their softmax and its gradient twice as much again.
A chunk's logits are computed again in the backward pass, as activation checkpointing does for a block (Chen et al.,
arXiv 1604.06174).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from training_core.algorithms.losses import token_entropies
from training_core.llm.generation.sampling import tempered_log_probs
from training_core.llm.learning.memory import LOGITS_AT_ONCE
from training_core.llm.learning.packing import MicroBatch


@dataclass(frozen=True)
class TokenScores:
    """What an update needs of the logits, for each response token (T,)."""

    logprobs: Tensor
    """With the temperature and truncation of sampling; sampled tokens are never truncated."""
    untruncated: Tensor
    """After temperature only. Two policies are compared by these, because one may truncate a token that the other does not."""
    entropies: Tensor
    """Of the distribution that predicts the token, without a gradient unless it is requested; empty in a pass without gradients."""


def score_tokens(
    head: Callable[[Tensor], Tensor],
    states: Tensor,
    piece: MicroBatch,
    vocabulary: int,
    *,
    entropy_gradient: bool = False,
) -> TokenScores:
    """The response tokens' scores from the states (U, H) at the places that predict them; `head` maps states to logits."""
    batch = piece.batch
    size = max(LOGITS_AT_ONCE.get(states.device.type, LOGITS_AT_ONCE["cpu"]) // vocabulary, 1)

    def score(states: Tensor, nodes: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _score(head(states), nodes, targets, piece, entropy_gradient)

    if len(states) <= size:
        return TokenScores(*score(states, batch.node_indices, batch.targets))
    starts = range(0, len(states), size)
    tokens = np.bincount(batch.node_numbers // size, minlength=len(starts)).tolist()  # counted on the host
    order = batch.node_indices.argsort(stable=True)
    parts = []
    for start, chosen in zip(starts, order.split(tokens), strict=True):
        arguments = states[start : start + size], batch.node_indices[chosen] - start, batch.targets[chosen]
        parts.append(checkpoint(score, *arguments, use_reentrant=False, preserve_rng_state=False))
    places = order.argsort()
    columns = [torch.cat(column) for column in zip(*parts, strict=True)]
    return TokenScores(*(column[places] if len(column) else column for column in columns))


def _score(
    logits: Tensor, nodes: Tensor, targets: Tensor, piece: MicroBatch, entropy_gradient: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (N,) of N tokens with these nodes, as indices into the logits (places, V)."""
    keep = None
    if piece.truncated:
        keep = torch.zeros_like(logits, dtype=torch.bool)
        keep[nodes, targets] = True
    log_probs = tempered_log_probs(logits, piece.temperature, piece.top_k, piece.top_p, keep)
    logprobs = untruncated = log_probs[nodes, targets]
    entropies = logprobs.new_empty(0)
    if torch.is_grad_enabled():
        with torch.set_grad_enabled(entropy_gradient):
            entropies = token_entropies(log_probs)[nodes]
    if piece.truncated:
        untruncated = tempered_log_probs(logits, piece.temperature)[nodes, targets]
    return logprobs, untruncated, entropies

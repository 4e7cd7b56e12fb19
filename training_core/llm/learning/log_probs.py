"""Log-probabilities of a micro-batch from its logits (U, V), under the sampling distribution and before truncation."""

import torch
from torch import Tensor

from training_core.llm.generation.sampling import tempered_log_probs
from training_core.llm.learning.micro_batches import MicroBatch


def is_untruncated(piece: MicroBatch) -> bool:
    return piece.top_k == 0 and piece.top_p >= 1.0


def sampling_log_probs(logits: Tensor, piece: MicroBatch) -> Tensor:
    """Log-probabilities (U, V) with the temperature and truncation of sampling; sampled tokens are never truncated."""
    keep = None
    if not is_untruncated(piece):
        keep = torch.zeros_like(logits, dtype=torch.bool)
        keep[piece.batch.node_indices, piece.batch.targets] = True
    return tempered_log_probs(logits, piece.temperature, piece.top_k, piece.top_p, keep)


def untruncated_logprobs(logits: Tensor, piece: MicroBatch) -> Tensor:
    """The response tokens' logprobs (T,) after temperature only. Two policies are compared by these, because one may
    truncate a token that the other does not.
    """
    return tempered_log_probs(logits, piece.temperature)[piece.batch.node_indices, piece.batch.targets]

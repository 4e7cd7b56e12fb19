"""Log-probabilities of a micro-batch from its logits (U, V), as they were sampled from and before truncation."""

import torch
from torch import Tensor

from training_core.llm.generation.sampling import tempered_log_probs
from training_core.llm.learning.micro_batches import MicroBatch


def is_plain(piece: MicroBatch) -> bool:
    return piece.top_k == 0 and piece.top_p >= 1.0


def sampled_from(logits: Tensor, piece: MicroBatch) -> Tensor:
    """(U, V) under the temperature and truncation that the tokens were sampled with; sampled tokens are never cut."""
    keep = None
    if not is_plain(piece):
        keep = torch.zeros_like(logits, dtype=torch.bool)
        keep[piece.batch.place, piece.batch.targets] = True
    return tempered_log_probs(logits, piece.temperature, piece.top_k, piece.top_p, keep)


def untruncated(logits: Tensor, piece: MicroBatch) -> Tensor:
    """The response tokens' logprobs (T,) after temperature alone: what two policies can be compared by, for where one
    of them cuts a token off, the other need not.
    """
    return tempered_log_probs(logits, piece.temperature)[piece.batch.place, piece.batch.targets]

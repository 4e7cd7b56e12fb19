"""What an update saw, group by group: for the reader of a transcript."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from training_core.llm.learning.micro_batches import MicroBatch


@dataclass
class GroupAnnotation:
    """What the update saw of one group, per answer and token, when it first came to it."""

    ratios: list[list[float]]
    """pi / pi_old."""
    entropies: list[list[float]]
    """Nats."""
    training_logprobs: list[list[float]]


Annotations = dict[tuple[str, int], GroupAnnotation]
"""By (episode, place of the turn in it)."""


def annotate(
    annotations: Annotations, piece: MicroBatch, figures: Sequence[Tensor], episodes: set[str] | None
) -> None:
    """Add a micro-batch's (ratios, entropies, logprobs), each (T,), for these episodes (None: all)."""
    ratios, entropies, logprobs = (tensor.float().tolist() for tensor in figures)
    end = 0
    for (group, place), length in zip(piece.answers, piece.lengths, strict=True):
        begin, end = end, end + length
        if episodes is not None and group.episode not in episodes:
            continue
        found = annotations.get((group.episode, group.turn))
        if found is None:
            found = annotations[group.episode, group.turn] = _empty(len(group.answers))
        found.ratios[place] = ratios[begin:end]
        found.entropies[place] = entropies[begin:end]
        found.training_logprobs[place] = logprobs[begin:end]


def _empty(answers: int) -> GroupAnnotation:
    return GroupAnnotation(
        [[] for _ in range(answers)], [[] for _ in range(answers)], [[] for _ in range(answers)]
    )

"""What an update saw, group by group: for the reader of a transcript."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

from torch import Tensor

from training_core.llm.learning.micro_batches import MicroBatch


@dataclass
class GroupAnnotation:
    """What the update saw of one group, per answer and token; NaN for tokens that are not learnt from."""

    ratios: list[list[float]]
    """pi / pi_old when the update first came to it."""
    entropies: list[list[float]]
    """Nats, then."""
    training_logprobs: list[list[float]]
    """By the learner before the update's first step, at the weights that sampled them."""


Annotations = dict[tuple[str, int], GroupAnnotation]
"""By (episode, place of the turn in it)."""


def annotate(
    annotations: Annotations, piece: MicroBatch, figures: Mapping[str, Tensor], episodes: set[str] | None
) -> None:
    """Add a micro-batch's figures (field of GroupAnnotation: (T,)) for these episodes (None: all)."""
    values = {name: tensor.float().tolist() for name, tensor in figures.items()}
    end = 0
    for (group, place), length in zip(piece.answers, piece.lengths.tolist(), strict=True):
        begin, end = end, end + length
        if episodes is not None and group.episode not in episodes:
            continue
        found = annotations.get((group.episode, group.turn))
        if found is None:
            found = annotations[group.episode, group.turn] = _empty(len(group.answers))
        mask = group.answers[place].loss_mask
        for name, tokens in values.items():
            getattr(found, name)[place] = _spread(tokens[begin:end], mask)


def _spread(values: list[float], mask: list[bool] | None) -> list[float]:
    """One value per token of the answer: NaN for those that are not learnt from."""
    if mask is None:
        return values
    learnt = iter(values)
    return [next(learnt) if wanted else nan for wanted in mask]


def _empty(answers: int) -> GroupAnnotation:
    return GroupAnnotation(
        [[] for _ in range(answers)], [[] for _ in range(answers)], [[] for _ in range(answers)]
    )

"""Per-group data of an update for transcripts."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

from torch import Tensor

from training_core.llm.learning.micro_batches import MicroBatch
from training_core.types import Group


@dataclass
class GroupAnnotation:
    """Data of an update for one group, per answer and token; NaN for tokens that are not trained on."""

    ratios: list[list[float]]
    """pi / pi_old at the group's first forward pass in the update."""
    entropies: list[list[float]]
    """Entropies in nats at the same pass."""
    training_logprobs: list[list[float]]
    """The learner's logprobs before the update's first step, with the weights that sampled the tokens."""
    masks: list[list[int]]
    """1 for tokens in the loss, else 0."""


Annotations = dict[tuple[str, int], GroupAnnotation]
"""By (episode, index of the turn in it)."""


def annotate(
    annotations: Annotations, piece: MicroBatch, figures: Mapping[str, Tensor], episodes: set[str] | None
) -> None:
    """Add a micro-batch's figures (field of GroupAnnotation: (T,)) for these episodes (None: all)."""
    values = {name: tensor.float().tolist() for name, tensor in figures.items()}
    end = 0
    for (group, index), length in zip(piece.answers, piece.lengths.tolist(), strict=True):
        begin, end = end, end + length
        if episodes is not None and group.episode not in episodes:
            continue
        annotation = annotations.get((group.episode, group.turn))
        if annotation is None:
            annotation = annotations[group.episode, group.turn] = _empty(group)
        answer = group.answers[index]
        mask = answer.loss_mask
        annotation.masks[index] = [int(trained) for trained in mask or [True] * len(answer.token_ids)]
        for name, tokens in values.items():
            getattr(annotation, name)[index] = _per_token(tokens[begin:end], mask)


def _per_token(values: list[float], mask: list[bool] | None) -> list[float]:
    """One value per token of the answer: NaN for tokens that are not trained on."""
    if mask is None:
        return values
    learnt = iter(values)
    return [next(learnt) if trained else nan for trained in mask]


def _empty(group: Group) -> GroupAnnotation:
    """No data: no answer is in the loss until a micro-batch contains it."""
    return GroupAnnotation(
        ratios=[[] for _ in group.answers],
        entropies=[[] for _ in group.answers],
        training_logprobs=[[] for _ in group.answers],
        masks=[[0] * len(answer.token_ids) for answer in group.answers],
    )

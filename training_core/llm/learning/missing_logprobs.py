"""Answers without logprobs: external text with an unknown sampler.

They get the logprobs of the policy before the update's first step, and its version. Ratios then start at 1, so the
first step is that of REINFORCE with the group's baseline; clipping has an effect from the second step on. A different
sampler is not corrected for: that needs its logprobs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from training_core.llm.learning.micro_batches import MicroBatch
from training_core.types import NOT_SAMPLED, Answer, Group

Score = Callable[[Sequence[Group]], Iterable[tuple[MicroBatch, Tensor]]]
"""Groups -> their micro-batches, each with the policy's logprobs (T,)."""


def with_logprobs(groups: Sequence[Group], version: int, score: Score) -> list[Group]:
    """The same groups; answers without logprobs get those of `score`, as sampled by `version`. Known ones are unchanged."""
    asked = {place: group for place, group in enumerate(groups) if any(map(_is_unknown, group.answers))}
    blank = {
        place: replace(group, answers=[_blank(each) for each in group.answers])
        for place, group in asked.items()
    }
    owners = {id(group): place for place, group in blank.items()}
    found = {place: list(groups[place].answers) for place in asked}
    with torch.no_grad():
        for piece, logprobs in score(list(blank.values())):
            parts = logprobs.split(piece.lengths.tolist())
            for (group, index), part in zip(piece.answers, parts, strict=True):
                answers = found[owners[id(group)]]
                if _is_unknown(answers[index]):
                    answers[index] = _known(answers[index], part.tolist(), version)
    return [
        replace(group, answers=found[place]) if place in found else group
        for place, group in enumerate(groups)
    ]


def _is_unknown(answer: Answer) -> bool:
    return bool(answer.token_ids) and not answer.logprobs


def _blank(answer: Answer) -> Answer:
    """The answer with a placeholder for every logprob."""
    return replace(answer, logprobs=[0.0] * len(answer.token_ids)) if _is_unknown(answer) else answer


def _known(answer: Answer, learnt: list[float], version: int) -> Answer:
    """The answer with these logprobs at the trained tokens, and 0.0 at the others."""
    mask = answer.loss_mask or [True] * len(answer.token_ids)
    values = iter(learnt)
    return replace(
        answer,
        logprobs=[next(values) if wanted else 0.0 for wanted in mask],
        versions=[version if wanted else NOT_SAMPLED for wanted in mask],
    )

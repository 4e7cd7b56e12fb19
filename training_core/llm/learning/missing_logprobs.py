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


def fill_missing_logprobs(groups: Sequence[Group], version: int, score: Score) -> list[Group]:
    """The same groups; answers without logprobs get those of `score`, as sampled by `version`. Known ones are unchanged."""
    incomplete = {
        index: group for index, group in enumerate(groups) if any(map(_lacks_logprobs, group.answers))
    }
    placeholders = {
        index: replace(group, answers=[_with_placeholders(answer) for answer in group.answers])
        for index, group in incomplete.items()
    }
    owners = {id(group): index for index, group in placeholders.items()}
    filled = {index: list(groups[index].answers) for index in incomplete}
    with torch.no_grad():
        for piece, logprobs in score(list(placeholders.values())):
            parts = logprobs.split(piece.lengths.tolist())
            for (group, answer_index), part in zip(piece.answers, parts, strict=True):
                answers = filled[owners[id(group)]]
                if _lacks_logprobs(answers[answer_index]):
                    answers[answer_index] = _filled(answers[answer_index], part.tolist(), version)
    return [
        replace(group, answers=filled[index]) if index in filled else group
        for index, group in enumerate(groups)
    ]


def _lacks_logprobs(answer: Answer) -> bool:
    return bool(answer.token_ids) and not answer.logprobs


def _with_placeholders(answer: Answer) -> Answer:
    """The answer with a placeholder for every logprob."""
    return replace(answer, logprobs=[0.0] * len(answer.token_ids)) if _lacks_logprobs(answer) else answer


def _filled(answer: Answer, trained_logprobs: list[float], version: int) -> Answer:
    """The answer with these logprobs at the trained tokens, and 0.0 at the others."""
    mask = answer.loss_mask or [True] * len(answer.token_ids)
    values = iter(trained_logprobs)
    return replace(
        answer,
        logprobs=[next(values) if trained else 0.0 for trained in mask],
        versions=[version if trained else NOT_SAMPLED for trained in mask],
    )

"""Checks of token ids: of prompts, which every engine checks before it generates, and of sequences from external code."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from training_core.errors import DataError, PromptRefused, PromptTooLong
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Prompt


def check_sequence(prompt_ids: Sequence[int], answer: Answer, vocabulary: int, version: int) -> None:
    """Check a prompt and an answer: ids in the vocabulary, one logprob, version and mark per token, known versions.

    `version` is the newest of the policy. Logprobs are only checked if present. Raises DataError.
    """
    count = len(answer.token_ids)
    try:
        for ids in (prompt_ids, answer.token_ids):
            if len(ids):
                check_ids(ids, vocabulary)
    except PromptRefused as error:
        raise DataError(error.advice) from error
    lists: dict[str, Sequence[float]] = {
        "logprobs": answer.logprobs or [0.0] * count,
        "versions": answer.versions,
    }
    lists["loss_mask"] = answer.loss_mask if answer.loss_mask is not None else [True] * count
    for name, values in lists.items():
        if len(values) != count:
            raise DataError(
                f"an answer of {count} tokens has {len(values)} {name}", remedy="give one per token"
            )
    if not answer.logprobs:
        return
    learnt = answer.learnt(answer.logprobs)
    wrong = next((value for value in learnt if not isfinite(value) or value > _ROUNDING), None)
    if wrong is not None:
        raise DataError(f"a trained token has the logprob {wrong}; logprobs must be finite and at most 0")
    unknown = next((value for value in answer.learnt(answer.versions) if not 0 <= value <= version), None)
    if unknown is not None:
        raise DataError(
            f"a trained token has version {unknown} of the weights, but versions must be from 0 to {version}, the "
            "policy's version"
        )


def check_reward(reward: float) -> None:
    """Raises DataError if it is not finite."""
    if not isfinite(reward):
        raise DataError(f"a reward must be a finite number, not {reward}")


_ROUNDING = 1e-3
"""Largest logprob above 0 that can come from rounding."""


def context_length(model: Any) -> int | None:
    """Context length of a transformers model in tokens; None if its config has no limit."""
    return getattr(model.config, "max_position_embeddings", None)


def check_prompts(
    model: Any, prompts: Sequence[Prompt], settings: SamplingSettings, context: int | None
) -> list[int]:
    """Check prompts against a transformers model's embedding and against `context`, its context length in tokens (None: no limit).

    Returns the maximum length of each prompt's answers in tokens, those before a continuation included: max_tokens, or
    what the prompt leaves of the context. Raises PromptRefused for the first prompt that is wrong; PromptTooLong for all
    that leave no room.
    """
    vocabulary = int(model.get_input_embeddings().num_embeddings)
    limits: list[int] = []
    too_long: dict[int, str] = {}
    for number, prompt in enumerate(prompts):
        try:
            limits.append(_answer_limit(prompt, vocabulary, settings.max_tokens, context))
        except PromptTooLong as error:
            too_long[number] = error.advice
    if too_long:
        raise PromptTooLong(next(iter(too_long.values())), tuple(too_long))
    return limits


def _answer_limit(prompt: Prompt, vocabulary: int, max_tokens: int, context: int | None) -> int:
    """Maximum length of a prompt's answers in tokens. Raises PromptRefused, PromptTooLong."""
    if not len(prompt.token_ids) or prompt.count < 1:
        raise PromptRefused(
            "a prompt is empty or requests no answers", remedy="give token ids and a count of 1 or more"
        )
    check_ids(prompt.token_ids, vocabulary)
    length = len(prompt.token_ids) - prompt.offset
    if context is not None and length >= context:
        raise PromptTooLong(
            f"a prompt of {length} tokens leaves no room for an answer in the model's context of {context}",
            remedy="shorten the prompt",
        )
    limit = max_tokens if context is None else min(max_tokens, context - length)
    if prompt.offset >= limit:
        raise PromptRefused(
            f"an answer to continue already has {prompt.offset} of at most {limit} tokens, so it has ended",
            remedy="raise sampling.max_tokens or shorten the prompt",
        )
    return limit


def check_ids(ids: Sequence[int], vocabulary: int) -> None:
    """Check that token ids are integers from 0 to vocabulary - 1. Raises PromptRefused."""
    try:
        array = np.asarray(ids)
    except (ValueError, OverflowError):  # nested lists of different lengths, numbers beyond 64 bits
        array = np.empty(0, dtype=object)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise PromptRefused("token ids must be one list of integers")
    invalid = array[(array < 0) | (array >= vocabulary)]
    if len(invalid):
        raise PromptRefused(
            f"token id {invalid[0]} is outside the model's vocabulary of {vocabulary}",
            remedy=f"use ids from 0 to {vocabulary - 1}, as encoded by the model's tokenizer",
        )

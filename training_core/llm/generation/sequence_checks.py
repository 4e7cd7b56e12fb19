"""Checks of token id sequences from external code, before they are used for training."""

from collections.abc import Sequence
from math import isfinite

from training_core.errors import DataError, PromptRefused
from training_core.llm.generation.prompt_checks import check_ids
from training_core.types import Answer


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
        raise DataError(str(error)) from error
    lists: dict[str, Sequence[float]] = {
        "logprobs": answer.logprobs or [0.0] * count,
        "versions": answer.versions,
    }
    lists["loss_mask"] = answer.loss_mask if answer.loss_mask is not None else [True] * count
    for name, values in lists.items():
        if len(values) != count:
            raise DataError(f"an answer of {count} tokens has {len(values)} {name}; give one per token")
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

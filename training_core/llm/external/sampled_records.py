"""Token ids, logprobs and versions in a record: the sampled tokens, instead of text that is encoded again.

Two forms. By message, as in the gateway's responses: an assistant's message has `prompt_token_ids` and `token_ids`,
and may have `logprobs` and `versions`. By sample, with slime's names: the record has `tokens` (prompt and response)
and `response_length`, and may have `loss_mask`, `rollout_log_probs` and `versions` of the response.
"""

from collections.abc import Mapping
from typing import Any

from training_core.errors import DataError
from training_core.llm.rollout_workflows.token_sequences import TokenSequence, join_calls
from training_core.types import NOT_SAMPLED, Answer


def sampled_sequences(record: Mapping[str, Any], version: int) -> list[TokenSequence]:
    """Sequences of a record with ids; none if it has only text. Rewards are 0.

    `version` applies to tokens with logprobs and without versions. Raises DataError.
    """
    if record.get("tokens") is not None:
        return [_sample(record, version)]
    trained = [
        message
        for message in record["messages"]
        if message["role"] == "assistant" and message.get("step_loss_mask", 1) == 1
    ]
    with_ids = [message for message in trained if message.get("token_ids") is not None]
    if not with_ids:
        return []
    if len(with_ids) < len(trained):
        raise DataError(
            f"{len(with_ids)} of {len(trained)} assistant messages have token_ids; give them for each trained message"
        )
    return list(join_calls(_call(message, version) for message in with_ids))


def _call(message: Mapping[str, Any], version: int) -> TokenSequence:
    ids = _list(message, "token_ids")
    if not message.get("prompt_token_ids"):
        raise DataError("an assistant message with token_ids needs prompt_token_ids, the ids of its prompt")
    cut = message.get("finish_reason") == "length"
    answer = _answer(ids, message.get("logprobs"), message.get("versions"), [True] * len(ids), version, cut)
    return _list(message, "prompt_token_ids"), answer, 0.0, ""


def _sample(record: Mapping[str, Any], version: int) -> TokenSequence:
    tokens, length = _list(record, "tokens"), record.get("response_length")
    mask = record.get("loss_mask")
    if length is None and isinstance(mask, list):
        length = len(mask)
    if not isinstance(length, int) or isinstance(length, bool) or not 0 < length < len(tokens):
        raise DataError(
            f"response_length = {length!r} of {len(tokens)} tokens: it must be above 0 and leave a prompt"
        )
    marks = [True] * length if mask is None else [mark == 1 for mark in _list(record, "loss_mask")]
    if len(marks) != length:
        raise DataError(f"loss_mask has {len(marks)} marks, and the response has {length} tokens")
    if True not in marks:
        raise DataError("loss_mask leaves nothing to train on")
    logprobs = record.get("rollout_log_probs", record.get("logprobs"))
    versions = record.get("versions", record.get("weight_versions"))
    cut = bool((record.get("extra_info") or {}).get("truncated"))
    return tokens[:-length], _answer(tokens[-length:], logprobs, versions, marks, version, cut), 0.0, ""


def _answer(
    ids: list[int], logprobs: Any, versions: Any, marks: list[bool], version: int, cut: bool
) -> Answer:
    """Without logprobs, the learner computes them with its version."""
    count = len(ids)
    sampled = _numbers(logprobs, "logprobs", count) if logprobs is not None else []
    if isinstance(versions, int | str):
        versions = [versions] * count
    by_token = (
        [int(number) for number in _numbers(versions, "versions", count)]
        if versions is not None
        else [version] * count
    )
    if not sampled:
        by_token = [NOT_SAMPLED] * count
    by_token = [number if trained else NOT_SAMPLED for number, trained in zip(by_token, marks, strict=True)]
    return Answer(ids, sampled, by_token, "length" if cut else "stop", "", marks)


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise DataError(f"{name} must be a list, not {type(value).__name__}")
    return value


def _numbers(values: Any, name: str, count: int) -> list[float]:
    if not isinstance(values, list) or len(values) != count:
        length = len(values) if isinstance(values, list) else "no"
        raise DataError(f"{count} tokens have {length} {name}; give one per token")
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be numbers: {error}") from error

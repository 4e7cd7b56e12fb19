"""Token ids, logprobs and versions in a record: the sampled tokens, instead of text that is encoded again.

Two forms. By message, as in the gateway's responses: an assistant's message has `prompt_token_ids` and `token_ids`,
and may have `logprobs` and `versions`. By sample, with slime's names: the record has `tokens` (prompt and response)
and `response_length`, and may have `loss_mask`, `rollout_log_probs` and `versions` of the response.
"""

from collections.abc import Mapping
from typing import Any

from training_core.errors import DataError
from training_core.llm.rollout_workflows.token_sequences import Stretch, joined_calls
from training_core.types import NOT_SAMPLED, Answer


def sampled_stretches(record: Mapping[str, Any], version: int) -> list[Stretch]:
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
    return list(joined_calls(_call(message, version) for message in with_ids))


def _call(message: Mapping[str, Any], version: int) -> Stretch:
    ids = _list(message, "token_ids")
    if not message.get("prompt_token_ids"):
        raise DataError("an assistant message with token_ids needs prompt_token_ids, the ids of its prompt")
    cut = message.get("finish_reason") == "length"
    answer = _answer(ids, message.get("logprobs"), message.get("versions"), [True] * len(ids), version, cut)
    return _list(message, "prompt_token_ids"), answer, 0.0, ""


def _sample(record: Mapping[str, Any], version: int) -> Stretch:
    tokens, length = _list(record, "tokens"), record.get("response_length")
    mask = record.get("loss_mask")
    if length is None and isinstance(mask, list):
        length = len(mask)
    if not isinstance(length, int) or isinstance(length, bool) or not 0 < length < len(tokens):
        raise DataError(
            f"response_length = {length!r} of {len(tokens)} tokens: it must be above 0 and leave a prompt"
        )
    marks = [True] * length if mask is None else [each == 1 for each in _list(record, "loss_mask")]
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
    known = _numbers(logprobs, "logprobs", count) if logprobs is not None else []
    if isinstance(versions, int | str):
        versions = [versions] * count
    told = (
        [int(each) for each in _numbers(versions, "versions", count)]
        if versions is not None
        else [version] * count
    )
    if not known:
        told = [NOT_SAMPLED] * count
    told = [each if learnt else NOT_SAMPLED for each, learnt in zip(told, marks, strict=True)]
    return Answer(ids, known, told, "length" if cut else "stop", "", marks)


def _list(given: Mapping[str, Any], name: str) -> list[Any]:
    found = given.get(name)
    if not isinstance(found, list):
        raise DataError(f"{name} must be a list, not {type(found).__name__}")
    return found


def _numbers(given: Any, name: str, count: int) -> list[float]:
    if not isinstance(given, list) or len(given) != count:
        length = len(given) if isinstance(given, list) else "no"
        raise DataError(f"{count} tokens have {length} {name}; give one per token")
    try:
        return [float(each) for each in given]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be numbers: {error}") from error

"""Responses in the OpenAI API's shapes: complete, or as the documents of a stream."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training_core.types import Answer
from workers.gateway.answering import Answered
from workers.gateway.requests import ChatRequest, TextRequest

_WORD = re.compile(r"\s*\S+\s*$|\s*\S+|\s+$")
FINISHES = {"stop": "stop", "length": "length", "interrupt": "abort"}


def chat_response(answered: Answered, request: ChatRequest) -> dict[str, Any]:
    """A chat completion."""
    choices = [
        {
            "index": index,
            "message": message | {"refusal": None},
            "finish_reason": _finish(answer, message),
            "logprobs": {"content": _chat_logprobs(answered, answer)} if request.logprobs else None,
        }
        | _ids(answer, request)
        for index, (answer, message) in enumerate(_choices(answered))
    ]
    return _head(answered, "chat.completion") | {
        "choices": choices,
        "usage": usage([answered]),
        **_prompt_ids(answered, request),
    }


def chat_stream(answered: Answered, request: ChatRequest) -> Iterator[dict[str, Any]]:
    """A chat completion as chunks: for each choice its role, logprobs, text word by word, tool calls and end."""
    head = _head(answered, "chat.completion.chunk")

    def chunk(
        index: int, delta: Mapping[str, Any], finish: str | None = None, more: Any = None
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "finish_reason": finish, "logprobs": None} | (more or {})
        return head | {"choices": [choice]}

    for index, (answer, message) in enumerate(_choices(answered)):
        yield chunk(index, {"role": "assistant", "content": ""})
        if request.logprobs:
            logprobs = {"content": _chat_logprobs(answered, answer)}
            yield chunk(index, {"content": ""}, more={"logprobs": logprobs})
        for text in _WORD.findall(message["content"] or ""):
            yield chunk(index, {"content": text})
        for position, call in enumerate(message.get("tool_calls") or []):
            yield chunk(index, {"tool_calls": [{"index": position} | call]})
        yield chunk(index, {}, _finish(answer, message), _ids(answer, request))
    if request.wants_usage:
        yield head | {"choices": [], "usage": usage([answered])}


def text_response(parts: Sequence[Answered], request: TextRequest) -> dict[str, Any]:
    """A text completion; choices of all prompts in order."""
    choices = [
        {
            "index": index,
            "text": answer.text,
            "finish_reason": FINISHES[answer.stop_reason],
            "logprobs": _text_logprobs(answered, answer) if request.logprobs is not None else None,
        }
        | _ids(answer, request)
        | _prompt_ids(answered, request)
        for index, (answered, answer) in enumerate(
            (part, answer) for part in parts for answer in part.call.answers
        )
    ]
    return _head(parts[0], "text_completion") | {"choices": choices, "usage": usage(parts)}


def text_stream(parts: Sequence[Answered], request: TextRequest) -> Iterator[dict[str, Any]]:
    """A text completion as chunks, one per choice."""
    whole = text_response(parts, request)
    for choice in whole["choices"]:
        yield {**whole, "choices": [choice], "usage": None}
    if request.wants_usage:
        yield {**whole, "choices": []}


def usage(parts: Sequence[Answered]) -> dict[str, int]:
    """Token counts of prompts and answers."""
    prompt = sum(len(part.call.prompt_ids) for part in parts)
    completion = sum(len(answer.token_ids) for part in parts for answer in part.call.answers)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _choices(answered: Answered) -> Iterator[tuple[Answer, dict[str, Any]]]:
    return zip(answered.call.answers, answered.messages, strict=True)


def _head(answered: Answered, kind: str) -> dict[str, Any]:
    created = int(answered.call.ended)
    return {"id": answered.call.id, "object": kind, "created": created, "model": answered.role}


def _finish(answer: Answer, message: Mapping[str, Any]) -> str:
    reason = FINISHES[answer.stop_reason]
    return "tool_calls" if message.get("tool_calls") and reason == "stop" else reason


def _ids(answer: Answer, request: ChatRequest | TextRequest) -> dict[str, Any]:
    if not request.return_token_ids:
        return {}
    return {"token_ids": answer.token_ids, "token_logprobs": answer.logprobs, "versions": answer.versions}


def _prompt_ids(answered: Answered, request: ChatRequest | TextRequest) -> dict[str, Any]:
    return {"prompt_token_ids": answered.call.prompt_ids} if request.return_token_ids else {}


def _chat_logprobs(answered: Answered, answer: Answer) -> list[dict[str, Any]]:
    texts = answered.client.renderer.token_texts(answer.token_ids)
    return [
        {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
        for text, logprob in zip(texts, answer.logprobs, strict=True)
    ]


def _text_logprobs(answered: Answered, answer: Answer) -> dict[str, Any]:
    texts = answered.client.renderer.token_texts(answer.token_ids)
    offsets = [sum(map(len, texts[:index])) for index in range(len(texts))]
    return {
        "tokens": texts,
        "token_logprobs": answer.logprobs,
        "top_logprobs": None,
        "text_offset": offsets,
    }

"""OpenAI's API: chat completions and text completions, complete or as a stream."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from training_core.llm.agents.session import Session
from training_core.types import Answer
from workers.gateway.answering import (
    Answered,
    Asked,
    Batcher,
    Dialect,
    answer_chat,
    answer_texts,
    event,
    other_fields,
    returned_ids,
    returned_prompt,
    words,
)
from workers.gateway.request_grammars import forced_tool_of, schema_of

_FINISHES = {"stop": "stop", "length": "length", "interrupt": "abort"}
TokenId = Annotated[int, Field(strict=True, ge=0)]
"""The upper bound is checked in answering.py."""
_STREAM_OPTIONS = ("include_usage",)
_MESSAGE_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name")


class _Request(Asked):
    """Fields common to chat and text requests."""

    ignored_fields: ClassVar[tuple[str, ...]] = (
        "temperature", "top_p", "presence_penalty", "frequency_penalty", "logit_bias"
    )  # fmt: skip

    stop: str | list[str] | None = None
    stream_options: dict[str, Any] = {}
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(text for text in stops if text)

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return bool(self.stream_options.get("include_usage"))

    @property
    def unapplied(self) -> dict[str, Any]:
        """As for every request; fields of the stream's options as stream_options.field."""
        return super().unapplied | other_fields("stream_options", [self.stream_options], _STREAM_OPTIONS)


class ChatRequest(_Request):
    """POST /v1/chat/completions."""

    grammar_fields = "tool_choice", "response_format"
    ignored_fields = (*_Request.ignored_fields, "top_logprobs", *grammar_fields)

    messages: list[dict[str, Any]] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] = "auto"
    """With "none" the policy does not see the tools. Forced calls are sampled under their grammar."""
    response_format: dict[str, Any] | None = None
    continue_final_message: bool = False
    """Whether the last message is an unfinished assistant message."""

    @model_validator(mode="after")
    def _continues_the_assistant(self) -> Self:
        if self.continue_final_message and self.messages[-1].get("role") != "assistant":
            raise ValueError("continue_final_message: the last message must be the assistant's")
        return self

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def continues(self) -> bool:
        return self.continue_final_message

    @property
    def chat(self) -> list[dict[str, Any]]:
        return self.messages

    @property
    def offered(self) -> list[dict[str, Any]] | None:
        return self.tools if self.tools and self.tool_choice != "none" else None

    @property
    def answer_schema(self) -> Mapping[str, Any] | None:
        return schema_of(self.response_format)

    @property
    def forced_tool(self) -> str | None:
        return forced_tool_of(self.tool_choice)

    @property
    def unapplied(self) -> dict[str, Any]:
        """As for every request; fields of messages as messages.field."""
        fields = other_fields("messages", self.messages, _MESSAGE_FIELDS)
        return super().unapplied | {name: value for name, value in fields.items() if value}


class TextRequest(_Request):
    """POST /v1/completions."""

    id_prefix = "cmpl-"
    ignored_fields = (*_Request.ignored_fields, "logprobs")
    """Of logprobs only the number of alternatives, above 1."""

    prompt: str | list[TokenId] | list[str] | list[list[TokenId]]
    max_tokens: int | None = Field(None, ge=1)
    logprobs: int | None = Field(None, ge=0)
    echo: Literal[False] = False

    @property
    def limit(self) -> int | None:
        return self.max_tokens

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts as a list."""
        prompt = self.prompt
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            return list(prompt)
        return [prompt]  # type: ignore[list-item]


def _chat_document(parts: Sequence[Answered], request: ChatRequest) -> dict[str, Any]:
    """A chat completion."""
    (answered,) = parts
    choices = [
        {
            "index": index,
            "message": message | {"refusal": None},
            "finish_reason": _finish(answer, message),
            "logprobs": {"content": _chat_logprobs(answered, answer)} if request.logprobs else None,
        }
        | returned_ids(answer, request)
        for index, (answer, message) in enumerate(_choices(answered))
    ]
    document = _head(answered, "chat.completion") | {"choices": choices, "usage": _usage(parts)}
    return document | returned_prompt(answered, request)


def _chat_chunks(parts: Sequence[Answered], request: ChatRequest) -> Iterator[dict[str, Any]]:
    """A chat completion as chunks: for each choice its role, logprobs, text word by word, tool calls and end."""
    (answered,) = parts
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
        for text in words(message["content"] or ""):
            yield chunk(index, {"content": text})
        for position, call in enumerate(message.get("tool_calls") or []):
            yield chunk(index, {"tool_calls": [{"index": position} | call]})
        yield chunk(index, {}, _finish(answer, message), returned_ids(answer, request))
    if request.wants_usage:
        yield head | {"choices": [], "usage": _usage(parts)}


def _text_document(parts: Sequence[Answered], request: TextRequest) -> dict[str, Any]:
    """A text completion; choices of all prompts in order."""
    choices = [
        {
            "index": index,
            "text": answer.text,
            "finish_reason": _FINISHES[answer.stop_reason],
            "logprobs": _text_logprobs(answered, answer) if request.logprobs is not None else None,
        }
        | returned_ids(answer, request)
        | returned_prompt(answered, request)
        for index, (answered, answer) in enumerate(
            (part, answer) for part in parts for answer in part.call.answers
        )
    ]
    return _head(parts[0], "text_completion") | {"choices": choices, "usage": _usage(parts)}


def _text_chunks(parts: Sequence[Answered], request: TextRequest) -> Iterator[dict[str, Any]]:
    """A text completion as chunks, one per choice."""
    whole = _text_document(parts, request)
    for choice in whole["choices"]:
        yield {**whole, "choices": [choice], "usage": None}
    if request.wants_usage:
        yield {**whole, "choices": []}


def _usage(parts: Sequence[Answered]) -> dict[str, int]:
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
    reason = _FINISHES[answer.stop_reason]
    return "tool_calls" if message.get("tool_calls") and reason == "stop" else reason


def _chat_logprobs(answered: Answered, answer: Answer) -> list[dict[str, Any]]:
    texts = answered.client.renderer.token_texts(answer.token_ids)
    return [
        {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
        for text, logprob in zip(texts, answer.logprobs, strict=True)
    ]


def _text_logprobs(answered: Answered, answer: Answer) -> dict[str, Any]:
    texts = answered.client.renderer.token_texts(answer.token_ids)
    offsets = [sum(map(len, texts[:index])) for index in range(len(texts))]
    return {"tokens": texts, "token_logprobs": answer.logprobs, "top_logprobs": None, "text_offset": offsets}


def error(message: str, code: str, status: int) -> dict[str, Any]:
    """An error in the API's shape."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


async def _answer_texts(session: Session, request: TextRequest, batcher: Batcher) -> list[Answered]:
    return await answer_texts(session, request, request.prompts, batcher)


def _stream(chunks: Callable[..., Iterable[Any]]) -> Callable[[Sequence[Answered], Any], Iterator[bytes]]:
    """The events of a stream with these chunks."""

    def events(parts: Sequence[Answered], request: Any) -> Iterator[bytes]:
        yield from map(event, chunks(parts, request))
        yield b"data: [DONE]\n\n"

    return events


CHAT = Dialect(ChatRequest, answer_chat, _chat_document, _stream(_chat_chunks), error)
TEXT = Dialect(TextRequest, _answer_texts, _text_document, _stream(_text_chunks), error)

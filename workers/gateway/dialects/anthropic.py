"""Anthropic's Messages API, complete or as a stream. Content blocks become chat messages, and answers become blocks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from training_core.errors import RequestRefused
from training_core.llm.agents.messages import shorten
from training_core.types import Answer
from workers.gateway.answering import (
    Answered,
    Asked,
    Dialect,
    answer_chat,
    event,
    other_fields,
    returned_ids,
    returned_prompt,
    words,
)
from workers.gateway.request_grammars import forced_tool_of, schema_of

_ERRORS = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    500: "api_error",
    503: "overloaded_error",
}
_THOUGHTS = ("thinking", "redacted_thinking")
_TOOL_FIELDS = ("type", "name", "description", "input_schema", "cache_control")


class MessagesRequest(Asked):
    """POST /v1/messages."""

    id_prefix = "msg_"
    grammar_fields = "tool_choice", "output_config.format"
    ignored_fields: ClassVar[tuple[str, ...]] = ("temperature", "top_p", "top_k", "tool_choice")

    messages: list[dict[str, Any]] = Field(min_length=1)
    """If the last one is the assistant's, it is the start of the answer."""
    system: str | list[dict[str, Any]] | None = None
    n: Literal[1] = 1
    max_tokens: int = Field(ge=1)
    stop_sequences: list[str] = []
    tools: list[dict[str, Any]] = []
    tool_choice: dict[str, Any] = {"type": "auto"}
    """With the type "none" the policy does not see the tools. Forced calls are sampled under their grammar."""
    output_config: dict[str, Any] = {}
    """The form of the answer: its `format` may have a JSON schema."""
    cache_control: dict[str, Any] | None = None
    """Changes no answer, here and in parts of the request."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None

    @model_validator(mode="after")
    def _calls_have_results(self) -> Self:
        content = self.messages[-1].get("content")
        if (
            self.continues
            and isinstance(content, list)
            and any(_kind(part) == "tool_use" for part in content)
        ):
            raise ValueError("messages: the last message has a tool_use; its tool_result must follow")
        return self

    @property
    def limit(self) -> int | None:
        return self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        return tuple(text for text in self.stop_sequences if text)

    @property
    def continues(self) -> bool:
        return self.messages[-1].get("role") == "assistant"

    @property
    def offered(self) -> list[dict[str, Any]] | None:
        if self.tool_choice.get("type") == "none":
            return None
        return [_function(tool) for tool in self.tools if _is_function(tool)] or None

    @property
    def answer_schema(self) -> Mapping[str, Any] | None:
        return schema_of(self.output_config.get("format"))

    @property
    def forced_tool(self) -> str | None:
        return forced_tool_of(self.tool_choice)

    @property
    def chat(self) -> list[dict[str, Any]]:
        start = [{"role": "system", "content": self.system}] if self.system else []
        return start + [part for message in self.messages for part in _chat_messages(message)]

    @property
    def unapplied(self) -> dict[str, Any]:
        """As for every request; fields of messages and tools with their section, other kinds of tools by type."""
        fields = other_fields("messages", self.messages, ("role", "content"))
        fields |= other_fields("output_config", [self.output_config], ())
        fields |= other_fields("tools", filter(_is_function, self.tools), _TOOL_FIELDS)
        fields |= {f"tools.{tool.get('type')}": True for tool in self.tools if not _is_function(tool)}
        return super().unapplied | fields


class CountTokensRequest(MessagesRequest):
    """POST /v1/messages/count_tokens."""

    max_tokens: int = Field(1, ge=1)


def _is_function(tool: Mapping[str, Any]) -> bool:
    return bool(tool.get("type", "custom") == "custom")


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    names = {"name": "name", "description": "description", "input_schema": "parameters"}
    return {"type": "function", "function": {names[name]: tool[name] for name in names if name in tool}}


def _kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


def _chat_messages(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as chat messages: an assistant's is one, a user's may have results of tools. Raises RequestRefused."""
    role, content = message.get("role"), message.get("content")
    if not isinstance(content, list):
        yield {"role": role, "content": content}
        return
    texts: list[Any] = []
    calls: list[dict[str, Any]] = []
    for block in content:
        kind = _kind(block)
        if kind == "text":
            texts.append(block)
        elif kind == "tool_use":
            function = {"name": block.get("name"), "arguments": block.get("input")}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
        elif kind == "tool_result":
            if texts:
                yield {"role": role, "content": texts}
                texts = []
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": block.get("content")}
        elif kind not in _THOUGHTS:  # another model's thoughts are not the policy's
            raise RequestRefused(
                f"messages have a block of type {shorten(kind)}; use text, tool_use and tool_result"
            )
    if texts or calls or role == "assistant":
        yield {"role": role, "content": texts} | ({"tool_calls": calls} if calls else {})


def _document(parts: Sequence[Answered], request: MessagesRequest) -> dict[str, Any]:
    """A message."""
    (answered,) = parts
    (answer,), (message,) = answered.call.answers, answered.messages
    stop = _stop_sequence(answered, answer, request)
    calls = message.get("tool_calls") or []
    text = message["content"] or ""
    uses = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),
        }
        for call in calls
    ]
    reason = {"length": "max_tokens", "interrupt": "pause_turn"}.get(answer.stop_reason)
    return {
        "id": answered.call.id,
        "type": "message",
        "role": "assistant",
        "model": answered.role,
        "content": ([{"type": "text", "text": text}] if text or not calls else []) + uses,
        "stop_reason": reason or ("tool_use" if calls else "stop_sequence" if stop else "end_turn"),
        "stop_sequence": None if calls else stop,
        "usage": {"input_tokens": len(answered.call.prompt_ids), "output_tokens": len(answer.token_ids)},
        **returned_prompt(answered, request),
        **returned_ids(answer, request),
    }


def _stop_sequence(answered: Answered, answer: Answer, request: MessagesRequest) -> str | None:
    """The stop text that ended an answer, of the request's or of the role's."""
    if answer.stop_reason != "stop":
        return None
    whole = answered.client.renderer.decode(answer.token_ids)
    stops = (*request.stops, *answered.client.settings.stop)
    return next((stop for stop in stops if whole.startswith(answer.text + stop)), None)


def _events(parts: Sequence[Answered], request: MessagesRequest) -> Iterator[bytes]:
    """The events of a stream: the message without its content, its blocks in parts, its end."""
    document = _document(parts, request)
    for fields in _stream(document):
        yield event(fields, fields["type"])


def _stream(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    start = document["usage"] | {"output_tokens": 0}
    begun = document | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": start}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(document["content"]):
        if block["type"] == "text":
            empty: dict[str, Any] = {"text": ""}
            deltas = [{"type": "text_delta", "text": text} for text in words(block["text"])]
        else:
            empty = {"input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield {"type": "content_block_start", "index": index, "content_block": block | empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {name: document[name] for name in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": end, "usage": document["usage"]}
    yield {"type": "message_stop"}


def error(message: str, code: str, status: int) -> dict[str, Any]:
    """An error in the API's shape."""
    kind = _ERRORS.get(status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": None}


MESSAGES = Dialect(MessagesRequest, answer_chat, _document, _events, error)

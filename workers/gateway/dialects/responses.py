"""OpenAI's Responses API, complete or as a stream. Nothing is stored: a request has the whole conversation.

Items become chat messages: an assistant's message and the function calls behind it are one answer, as the policy wrote it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from training_core.errors import RequestRefused
from training_core.llm.agents.messages import shorten
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
from workers.gateway.dialects.openai import error
from workers.gateway.request_grammars import forced_tool_of, schema_of

_STORED = ("previous_response_id", "conversation", "prompt")
_ITEM_FIELDS = ("type", "id", "status", "role", "content", "call_id", "name", "arguments", "output")
_UNSTORED = "responses are not stored; send the whole conversation as `input`"


class ResponsesRequest(Asked):
    """POST /v1/responses."""

    id_prefix = "resp_"
    conversation_field = "input"
    grammar_fields = "tool_choice", "text.format"
    ignored_fields: ClassVar[tuple[str, ...]] = ("temperature", "top_p", "tool_choice")

    input: str | list[dict[str, Any]] = Field(min_length=1)
    instructions: str | None = None
    """The system message."""
    n: Literal[1] = 1
    max_output_tokens: int | None = Field(None, ge=1)
    tools: list[dict[str, Any]] = []
    tool_choice: str | dict[str, Any] = "auto"
    """With "none" the policy does not see the tools. Forced calls are sampled under their grammar."""
    text: dict[str, Any] = {}
    """The form of the answer: its `format` may have a JSON schema."""
    temperature: float | None = None
    top_p: float | None = None

    @model_validator(mode="after")
    def _has_its_conversation(self) -> Self:
        for field in _STORED:
            if (self.model_extra or {}).get(field):
                raise ValueError(f"{field}: {_UNSTORED}")
        return self

    @property
    def limit(self) -> int | None:
        return self.max_output_tokens

    @property
    def offered(self) -> list[dict[str, Any]] | None:
        if self.tool_choice == "none":
            return None
        functions = [tool for tool in self.tools if tool.get("type") == "function"]
        return [function_tool(tool) for tool in functions] or None

    @property
    def answer_schema(self) -> Mapping[str, Any] | None:
        return schema_of(self.text.get("format"))

    @property
    def forced_tool(self) -> str | None:
        return forced_tool_of(self.tool_choice)

    @property
    def chat(self) -> list[dict[str, Any]]:
        start = [{"role": "system", "content": self.instructions}] if self.instructions else []
        return start + (_messages(self.input) if isinstance(self.input, list) else [_user(self.input)])

    @property
    def unapplied(self) -> dict[str, Any]:
        """As for every request; fields of items and of `text` with their section, tools that are no functions by type."""
        items = self.input if isinstance(self.input, list) else []
        fields = other_fields("input", items, _ITEM_FIELDS) | other_fields("text", [self.text], ())
        fields |= {f"tools.{tool.get('type')}": True for tool in self.tools if tool.get("type") != "function"}
        return super().unapplied | fields


def function_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A function as chat completions offers it."""
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _messages(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Items as chat messages. Raises RequestRefused for items that no policy can read."""
    messages: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type") or "message"
        if kind == "message":
            messages.append({"role": item.get("role"), "content": item.get("content")})
        elif kind == "function_call":
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": None})
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            calls = messages[-1].setdefault("tool_calls", [])
            calls.append({"id": item.get("call_id"), "type": "function", "function": function})
        elif kind == "function_call_output":
            message = {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
            messages.append(message)
        elif kind == "item_reference":
            raise RequestRefused(f"input has an item_reference; {_UNSTORED}")
        elif kind != "reasoning":  # another model's thoughts are not the policy's
            raise RequestRefused(
                f"input has an item of type {shorten(kind)}; use message, function_call and function_call_output"
            )
    return messages


def _document(parts: Sequence[Answered], request: ResponsesRequest) -> dict[str, Any]:
    """A response."""
    (answered,) = parts
    (answer,) = answered.call.answers
    settings = answered.client.settings
    reason = {"length": "max_output_tokens", "interrupt": "abort"}.get(answer.stop_reason)
    status = "incomplete" if reason else "completed"
    prompt, completion = len(answered.call.prompt_ids), len(answer.token_ids)
    return {
        "id": answered.call.id,
        "object": "response",
        "created_at": int(answered.call.ended),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "metadata": {},
        "model": answered.role,
        "output": list(_items(answered, status)),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": 0.0 if settings.greedy else settings.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none" if request.tool_choice == "none" else "auto",
        "tools": [tool for tool in request.tools if tool.get("type") == "function"],
        "top_p": settings.top_p,
        "truncation": "disabled",
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + completion,
        },
        **returned_prompt(answered, request),
        **returned_ids(answer, request),
    }


def _items(answered: Answered, status: str) -> Iterator[dict[str, Any]]:
    """The answer as items: its text, unless it has calls only, and its calls."""
    (message,) = answered.messages
    name = answered.call.id.removeprefix(ResponsesRequest.id_prefix)
    calls = message.get("tool_calls") or []
    if message["content"] or not calls:
        part: dict[str, Any] = {
            "type": "output_text",
            "text": message["content"] or "",
            "annotations": [],
            "logprobs": [],
        }
        yield {
            "type": "message",
            "id": f"msg_{name}",
            "status": status,
            "role": "assistant",
            "content": [part],
        }
    for position, call in enumerate(calls):
        head = {"type": "function_call", "id": f"fc_{name}_{position}", "call_id": call["id"]}
        yield head | call["function"] | {"status": "completed"}


def _events(parts: Sequence[Answered], request: ResponsesRequest) -> Iterator[bytes]:
    """The events of a stream, numbered."""
    for number, (name, fields) in enumerate(_stream(_document(parts, request))):
        yield event({"type": name, "sequence_number": number} | fields, name)


def _stream(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and fields of a stream's events: the response in progress, its items in parts, and the whole response."""
    begun = document | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(document["output"]):
        empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
        opened = item | empty | {"status": "in_progress"}
        yield "response.output_item.added", {"output_index": index, "item": opened}
        where = {"item_id": item["id"], "output_index": index}
        yield from _text_events(item, where) if item["type"] == "message" else _call_events(item, where)
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield f"response.{document['status']}", {"response": document}


def _text_events(item: dict[str, Any], where: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    (part,) = item["content"]
    where = where | {"content_index": 0}
    yield "response.content_part.added", where | {"part": part | {"text": ""}}
    for text in words(part["text"]):
        yield "response.output_text.delta", where | {"delta": text, "logprobs": []}
    yield "response.output_text.done", where | {"text": part["text"], "logprobs": []}
    yield "response.content_part.done", where | {"part": part}


def _call_events(item: dict[str, Any], where: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    arguments = item["arguments"]
    yield "response.function_call_arguments.delta", where | {"delta": arguments}
    yield "response.function_call_arguments.done", where | {"name": item["name"], "arguments": arguments}


RESPONSES = Dialect(ResponsesRequest, answer_chat, _document, _events, error)

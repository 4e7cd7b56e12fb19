"""OpenAI chat messages: conversion for chat templates, comparison, and answers as messages."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from training_core.errors import RequestRefused
from training_core.llm.agents.tool_calls import extract_calls
from training_core.types import Message

Chat = Mapping[str, Any]
"""A message with all possible keys: role, content, tool_calls, tool_call_id, name."""
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
Key = tuple[str, str, tuple[str, ...]]
"""The key by which messages are compared: role, stripped text, tool calls."""

_SYNONYMS = {"developer": "system", "function": "tool"}
ROLES = ("system", "user", "assistant", "tool")


def normalise_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message in the form for chat templates: content is a string, arguments of tool calls are objects. Raises RequestRefused."""
    if not isinstance(message, Mapping):
        raise RequestRefused("a message must be an object with a role and a content")
    role = message.get("role")
    role = _SYNONYMS.get(role, role) if isinstance(role, str) else role
    if not isinstance(role, str) or role not in ROLES:
        raise RequestRefused(f"a message has the role {shorten(role)}; use one of {', '.join(ROLES)}")
    normalised: dict[str, Any] = {"role": role, "content": _text(message.get("content"))}
    for name in ("tool_call_id", "name"):
        if message.get(name):
            normalised[name] = _string(message[name], f"a message's {name}")
    if message.get("tool_calls"):
        if not isinstance(message["tool_calls"], list):
            raise RequestRefused(
                f"a message's tool_calls must be a list, not {shorten(message['tool_calls'])}"
            )
        normalised["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return normalised


def shorten(value: Any) -> str:
    """A value for an error message: at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def comparison_key(message: Chat) -> Key:
    """The comparison key of a plain message. Ids of tool calls are excluded, because frameworks generate their own.
    Numbers are compared as JavaScript reads them, because its clients write 1.0 as 1 and round integers above 2**53.
    """
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return message["role"], message["content"].strip(), tuple(map(_call_key, calls))


def join_answer(messages: Sequence[Chat]) -> dict[str, Any]:
    """Assistant messages as the one answer of which they are parts: some clients send each of its calls by itself."""
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    text = "".join(message["content"] for message in messages)
    return {**messages[0], "content": text} | ({"tool_calls": calls} if calls else {})


def transcript_messages(messages: Sequence[Chat]) -> list[Message]:
    """Messages for transcripts: only role and content, with tool calls as text."""
    return [
        {
            "role": message["role"],
            "content": "\n".join(filter(None, (message["content"], _calls_text(message)))),
        }
        for message in messages
    ]


def answer_messages(messages: Sequence[Chat]) -> list[dict[str, str]]:
    """Messages for transcripts with their tool calls, as text, apart from their content."""
    return [
        {"role": message["role"], "content": message["content"]} | ({"tool_calls": calls} if calls else {})
        for message in messages
        for calls in [_calls_text(message)]
    ]


def parse_answer(text: str, *, tools: Sequence[Mapping[str, Any]] | bool) -> dict[str, Any]:
    """An answer as an OpenAI message. With `tools` (the offered ones, or True if they are not known), its tool calls
    are extracted from the text; see tool_calls.py for the notations.
    """
    content, calls = extract_calls(text, tools) if tools else (text, [])
    if not calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": content.strip() or None, "tool_calls": calls}


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS for part in content
    ):
        texts = (part.get("refusal" if part["type"] == "refusal" else "text") for part in content)
        return "".join(_string(text or "", "the text of a content part") for text in texts)
    raise RequestRefused("a message's content must be a string, or parts of type text")


def _string(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise RequestRefused(f"{what} must be a string, not {shorten(value)}")
    return value


def _call(call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestRefused("a tool call must be an object with a function that has a name")
    return {
        "id": _string(call.get("id") or "", "a tool call's id"),
        "type": "function",
        "function": {"name": function["name"], "arguments": _arguments(function.get("arguments") or {})},
    }


def _call_key(function: Mapping[str, Any]) -> str:
    try:
        arguments = _by_value(function["arguments"])
    except RecursionError:  # deeper than what a policy's call may be (tool_calls.LEVELS)
        arguments = function["arguments"]
    return json.dumps([function["name"], arguments], sort_keys=True)


def _by_value(value: Any) -> Any:
    """A value of JSON with its numbers as JavaScript's, which reads -0.0 as 0 and writes infinity as null."""
    if isinstance(value, Mapping):
        return {str(name): _by_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_by_value(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        number = float(value)
    except OverflowError:
        return None
    return number + 0.0 if isfinite(number) else None


def _arguments(value: Any) -> dict[str, Any]:
    """A tool call's arguments as an object, as chat templates need it."""
    if isinstance(value, Mapping):
        return dict(value)
    try:
        arguments = json.loads(_string(value, "a tool call's arguments"))
    except (ValueError, RecursionError):
        arguments = value
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def _calls_text(message: Chat) -> str:
    calls = (
        f"{call['function']['name']}({json.dumps(call['function']['arguments'], ensure_ascii=False)})"
        for call in message.get("tool_calls") or ()
    )
    return "\n".join(calls)

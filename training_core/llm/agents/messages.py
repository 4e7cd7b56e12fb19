"""OpenAI chat messages: conversion for chat templates, comparison, and parsing of tool calls from answers."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from training_core.errors import RequestRefused
from training_core.types import Message

Chat = Mapping[str, Any]
"""A message with all possible keys: role, content, tool_calls, tool_call_id, name."""
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
Key = tuple[str, str, str]
"""The key by which messages are compared: role, stripped text, tool calls."""

_SYNONYMS = {"developer": "system", "function": "tool"}
ROLES = ("system", "user", "assistant", "tool")
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_FUNCTION = re.compile(r"<function=([^>\s]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


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
    """The comparison key of a plain message. Ids of tool calls are excluded, because frameworks generate their own."""
    calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []
    ]
    return message["role"], message["content"].strip(), json.dumps(calls, sort_keys=True) if calls else ""


def transcript_messages(messages: Sequence[Chat]) -> list[Message]:
    """Messages for transcripts: only role and content, with tool calls as text."""
    return [{"role": message["role"], "content": _transcript_text(message)} for message in messages]


def parse_answer(text: str, *, tools: bool) -> dict[str, Any]:
    """An answer as an OpenAI message; with `tools`, its tool calls are extracted from the text.

    Two notations are supported: JSON in <tool_call> marks (Hermes, Qwen2.5, Qwen3), and <function=…><parameter=…>
    within them (Qwen3.5, Qwen3-Coder). Anything that cannot be parsed as a call remains text.
    """
    calls: list[dict[str, Any]] = []
    if tools:
        text = _CALL.sub(lambda match: _extract_call(match, calls), text)
    message: dict[str, Any] = {"role": "assistant", "content": text.strip() if calls else text}
    if calls:
        message |= {"content": message["content"] or None, "tool_calls": calls}
    return message


def _extract_call(match: re.Match[str], calls: list[dict[str, Any]]) -> str:
    """Replacement for a call: an empty string if it was parsed and added to `calls`, otherwise the unchanged text."""
    call = _json_call(match[1]) or _marked_call(match[1])
    if call is None:
        return match[0]
    name, arguments = call
    calls.append(
        {
            "id": f"call_{secrets.token_hex(12)}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
    )
    return ""


def _json_call(text: str) -> tuple[str, dict[str, Any]] | None:
    try:
        call = json.loads(text)
    except ValueError:
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", {})
    return (call["name"], arguments) if isinstance(arguments, dict) else None


def _marked_call(text: str) -> tuple[str, dict[str, Any]] | None:
    match = _FUNCTION.search(text)
    if match is None:
        return None
    return match[1], {name: _value(value) for name, value in _PARAMETER.findall(match[2])}


def _value(text: str) -> Any:
    """A parameter's value: parsed if it is JSON, otherwise a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text


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


def _arguments(value: Any) -> dict[str, Any]:
    """A tool call's arguments as an object, as chat templates need it."""
    if isinstance(value, Mapping):
        return dict(value)
    try:
        arguments = json.loads(_string(value, "a tool call's arguments"))
    except (ValueError, RecursionError):
        arguments = value
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def _transcript_text(message: Chat) -> str:
    calls = [
        f"{call['function']['name']}({json.dumps(call['function']['arguments'], ensure_ascii=False)})"
        for call in message.get("tool_calls") or []
    ]
    return "\n".join(part for part in (message["content"], *calls) if part)

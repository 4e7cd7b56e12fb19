"""OpenAI chat messages: made plain for chat templates, compared with one another, and tool calls read from answers."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from training_core.errors import RequestRefused
from training_core.types import Message

Chat = Mapping[str, Any]
"""A message with all that it may have: role, content, tool_calls, tool_call_id, name."""
Key = tuple[str, str, str]
"""What two messages are compared by: role, text without space around it, tool calls."""

ROLES = ("system", "user", "assistant", "tool")
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_FUNCTION = re.compile(r"<function=([^>\s]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


def plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as chat templates want it: content is a text, arguments of tool calls are objects. Raises RequestRefused."""
    role = {"developer": "system", "function": "tool"}.get(message.get("role", ""), message.get("role"))
    if role not in ROLES:
        raise RequestRefused(f"a message has the role {role!r}; use one of {', '.join(ROLES)}")
    made: dict[str, Any] = {"role": role, "content": _text(message.get("content"))}
    for name in ("tool_call_id", "name"):
        if message.get(name):
            made[name] = message[name]
    if message.get("tool_calls"):
        made["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return made


def key_of(message: Chat) -> Key:
    """What a plain message is compared by. Ids of tool calls are left out: frameworks make up their own."""
    calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []
    ]
    return message["role"], message["content"].strip(), json.dumps(calls, sort_keys=True) if calls else ""


def as_read(messages: Sequence[Chat]) -> list[Message]:
    """Messages for transcripts: role and content alone, tool calls written out."""
    return [{"role": message["role"], "content": _readable(message)} for message in messages]


def read_answer(text: str, *, tools: bool) -> dict[str, Any]:
    """An answer as an OpenAI message; with `tools`, its tool calls are taken out of the text.

    Two notations are known: JSON in <tool_call> marks (Hermes, Qwen2.5, Qwen3), and <function=…><parameter=…> within
    them (Qwen3.5, Qwen3-Coder). What cannot be read as a call stays text.
    """
    calls: list[dict[str, Any]] = []
    if tools:
        text = _CALL.sub(lambda found: _taken(found, calls), text)
    message: dict[str, Any] = {"role": "assistant", "content": text.strip() if calls else text}
    if calls:
        message |= {"content": message["content"] or None, "tool_calls": calls}
    return message


def _taken(found: re.Match[str], calls: list[dict[str, Any]]) -> str:
    """Nothing in place of a call that was read, which is added to `calls`; the text as it was where it cannot be."""
    read = _json_call(found[1]) or _marked_call(found[1])
    if read is None:
        return found[0]
    name, arguments = read
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
    found = _FUNCTION.search(text)
    if found is None:
        return None
    return found[1], {name: _value(value) for name, value in _PARAMETER.findall(found[2])}


def _value(text: str) -> Any:
    """A parameter's value: JSON where it is some, a text otherwise."""
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
        isinstance(part, Mapping) and part.get("type") in ("text", "input_text", "output_text")
        for part in content
    ):
        return "".join(str(part.get("text", "")) for part in content)
    raise RequestRefused("a message's content must be a text, or parts of type text")


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestRefused("a tool call must have a function with a name")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {"arguments": arguments}
    return {
        "id": call.get("id", ""),
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _readable(message: Chat) -> str:
    calls = [
        f"{call['function']['name']}({json.dumps(call['function']['arguments'], ensure_ascii=False)})"
        for call in message.get("tool_calls") or []
    ]
    return "\n".join(part for part in (message["content"], *calls) if part)

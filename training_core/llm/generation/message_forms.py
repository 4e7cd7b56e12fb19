"""The forms of a conversation in which a chat template may take it.

Many templates take one system message, at the start, and user and assistant in turn. System messages at the start become one.
Other messages change only if the template refuses them as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

Chat = Mapping[str, Any]


def accepted_forms(messages: Sequence[Chat]) -> Iterator[list[Chat]]:
    """The conversation, and what a template is given if it refuses that: forms that change more and more.

    A later system message becomes part of the neighbouring user message, as do user messages in a row; then the system
    message at the start; then assistant messages in a row become one.
    """
    forms = [_joined_start(messages)]
    yield forms[0]
    for merged in (("user",), ("user", "assistant")):
        for start in (1, 0):
            form = _folded(forms[0], start, merged)
            if form not in forms:
                forms.append(form)
                yield form


def is_regular(messages: Sequence[Chat]) -> bool:
    """Whether there is no later system message, and no role that follows itself."""
    joined = _joined_start(messages)
    return _folded(joined, 1, ("user", "assistant")) == joined


def _joined_start(messages: Sequence[Chat]) -> list[Chat]:
    """The conversation with one system message at the start."""
    count = next(
        (index for index, message in enumerate(messages) if message["role"] != "system"), len(messages)
    )
    return [*([_joined(messages[:count])] if count else []), *messages[count:]]


def _folded(messages: Sequence[Chat], start: int, merged: Sequence[str]) -> list[Chat]:
    """System messages from `start` on as user messages, and messages in a row of the `merged` roles as one."""
    roles = [
        {**message, "role": "user"} if message["role"] == "system" and index >= start else message
        for index, message in enumerate(messages)
    ]
    folded: list[Chat] = []
    for role, run in groupby(roles, key=lambda message: message["role"]):
        same = list(run)
        folded += [_joined(same)] if role in merged else same
    return folded


def _joined(messages: Sequence[Chat]) -> Chat:
    if len(messages) == 1:
        return messages[0]
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    content = "\n\n".join(message["content"] for message in messages if message["content"])
    return {**messages[0], "content": content} | ({"tool_calls": calls} if calls else {})

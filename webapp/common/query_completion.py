"""Completion of texts in the grammar of webapp.common.query_language."""

import re
from collections.abc import Callable, Iterable
from typing import Any

MOST = 12
_VALUE = re.compile(
    r"([\w.\/:@-]+)\s*(?:!=|<=|>=|=|<|>|~|in\s*\[(?:[^\]]*,)?)\s*([\w.\/:@\"'-]*)$", re.IGNORECASE
)
_WORD = re.compile(r"[\w.\/:@-]*$")


def complete(
    text: str, fields: Callable[[], Iterable[tuple[str, str]]], values: Callable[[str], Iterable[str]]
) -> dict[str, Any]:
    """Return {"start": start of the current word, "options": [{"text", "note"}]} for the text up to the caret.

    `fields` returns names with notes, `values` the values of a field.
    """
    value = _VALUE.search(text)
    if value:
        field, begun = value[1], value[2].strip("\"'")
        options = [{"text": _quoted(item), "note": ""} for item in values(field)]
        start = value.start(2)
    else:
        word = _WORD.search(text)
        begun, start = (word[0], word.start()) if word else ("", len(text))
        options = [{"text": _quoted(name), "note": note} for name, note in fields()]
    return {"start": start, "options": fitting(options, begun)}


def fitting(options: list[dict[str, str]], begun: str) -> list[dict[str, str]]:
    """Return the options that contain the text, those with it as a prefix first."""
    matching = [item for item in options if begun.lower() in item["text"].lower() and item["text"] != begun]
    matching.sort(key=lambda item: not item["text"].lower().startswith(begun.lower()))
    return matching[:MOST]


def _quoted(text: str) -> str:
    if re.fullmatch(r"[\w.\/:@-]+", text):
        return text
    return f'"{text}"' if '"' not in text else "'" + text.replace("'", "") + "'"

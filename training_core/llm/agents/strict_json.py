"""JSON as a policy writes it, and as every reader accepts it. Nothing here raises, whatever the text."""

import json
from typing import Any

LEVELS = 64
"""Objects and lists are nested at most this deep, because what reads them again (a chat template) recurses."""


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse)


def decode_json(text: str, at: int = 0) -> tuple[Any, int] | None:
    """The value at a place, and the place after it; None if there is none. Strings may contain raw line breaks; NaN
    and Infinity are refused.
    """
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def encode_json(value: Any) -> str | None:
    """A value as JSON; None if JSON in UTF-8 cannot represent it (an infinite number, half of a surrogate pair), or if
    it is nested deeper than LEVELS.
    """
    if _is_deeper(value, LEVELS):
        return None
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError):
        return None
    return text


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list | tuple):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)

"""Encode events as lines of JSON, with NaN and infinities as words.

orjson writes NaN and infinities as null. Only a line that contains null is encoded a second time, so that other events
cost nothing more.
"""

from math import isfinite, isnan
from typing import Any

import orjson

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def encode(event: dict[str, Any]) -> bytes:
    """Encode as one JSON object without a line break. Raises TypeError for objects that are not data."""
    try:
        line = orjson.dumps(event, default=_plain, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        if error.__cause__:
            raise TypeError(str(error.__cause__)) from error
        return orjson.dumps(encodable(event), default=_plain, option=_OPTIONS)
    if b"null" in line:
        line = orjson.dumps(encodable(event), default=_plain, option=_OPTIONS)
    return line


def encodable(value: Any) -> Any:
    """Return the data with NaN and infinities as words, and with text that UTF-8 can encode."""
    if isinstance(value, float):
        return value if isfinite(value) else word(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(item) for item in value]
    return encodable(value.tolist()) if hasattr(value, "tolist") else value


def word(value: float) -> str:
    """The word for a number that JSON cannot represent."""
    if isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be part of an event; use numbers, text, lists and dicts")

"""Events as lines of JSON: fast for what is common, exact for what JSON lacks.

orjson writes NaN and the infinities as null. Only a line with a null in it is walked and written again, so that
ordinary events pay nothing.
"""

from math import isfinite, isnan
from typing import Any

import orjson

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def encode(event: dict[str, Any]) -> bytes:
    """One JSON object without a line break. Raises TypeError for objects that are no data."""
    try:
        line = orjson.dumps(event, default=_plain, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        if error.__cause__:
            raise TypeError(str(error.__cause__)) from error
        return orjson.dumps(spelled(event), default=_plain, option=_OPTIONS)
    if b"null" in line:
        line = orjson.dumps(spelled(event), default=_plain, option=_OPTIONS)
    return line


def spelled(value: Any) -> Any:
    """The same data with NaN and infinities as words, and text that UTF-8 can carry."""
    if isinstance(value, float):
        return value if isfinite(value) else word(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {spelled(key): spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spelled(item) for item in value]
    return spelled(value.tolist()) if hasattr(value, "tolist") else value


def word(value: float) -> str:
    """How a number that JSON lacks travels."""
    if isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no data for an event; use numbers, text, lists and dicts")

"""Convert the config of a program to JSON: values of Python, numpy, torch, dataclasses and settings libraries."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import isfinite
from typing import Any

from training_core.errors import TroupeError
from troupe_client.documents.descriptions import CUT, MAX_LEVELS, storable
from workers.reporting.encoding import word

MAX_ELEMENTS = 1000
"""Elements up to which an array is stored; of larger ones the type and the shape."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_WHOLE = 2**63
_SIMPLE = (str, int, float, Decimal, Fraction)


def config_json(config: Any) -> dict[str, Any]:
    """Convert a mapping, a dataclass, a namespace or a settings object. Raises TroupeError for anything else.

    NaN and infinities become words, keys become text, and a value without a JSON form becomes its text.
    """
    if config is None:
        return {}
    converted = _plain(config, ())
    if not isinstance(converted, dict):
        kind = type(config).__name__
        raise TroupeError(f"config must be a mapping, a dataclass or a namespace, not {kind}: pass a dict")
    return converted


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    """Convert a value. `above`: ids of the containers that contain it, because containers may contain themselves."""
    if isinstance(value, Enum):
        value = value.value if isinstance(value.value, str | int | float) else value.name
    if value is None or isinstance(value, _SIMPLE):
        return _simple(value)
    if id(value) in above or len(above) > MAX_LEVELS:
        return CUT
    inside = (*above, id(value))
    if hasattr(value, "tolist"):
        return _array(value, inside)
    if (items := _items(value)) is not None:
        return _object(items, inside)
    if isinstance(value, Set):
        value = sorted(value, key=repr)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview | range):
        return [_plain(item, inside) for item in value]
    return _described(value)


def _simple(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return int(value) if -_WHOLE <= value < _WHOLE else str(value)
    return float(value) if isfinite(value) else word(float(value))


def _items(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields of a value that has names for its parts; None for others."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    if is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in fields(value)}
    for method in ("_asdict", "model_dump", "to_dict"):  # named tuples, pydantic, transformers
        if callable(getattr(value, method, None)):
            try:
                items = getattr(value, method)()
            except Exception:  # a foreign method; the value is described instead
                return None
            return items if isinstance(items, Mapping) else None
    named = type(value).__name__ in ("Namespace", "SimpleNamespace") or hasattr(value, "__attrs_attrs__")
    return vars(value) if named and hasattr(value, "__dict__") else None


def _object(items: Mapping[Any, Any], above: tuple[int, ...]) -> dict[str, Any]:
    """Convert a mapping; of two keys with the same text, such as 1 and "1", the second one keeps its quotes."""
    out: dict[str, Any] = {}
    for key, value in items.items():
        names = _names(key)
        name = next(name for name in names if name not in out)
        out[name] = _plain(value, above)
    return out


def _names(key: Any) -> Iterator[str]:
    plain = key.value if isinstance(key, Enum) and isinstance(key.value, str | int) else key
    yield _text(str(plain))
    number = 2
    yield _text(repr(key))
    while True:
        yield f"{_text(repr(key))} ({number})"
        number += 1


def _array(value: Any, above: tuple[int, ...]) -> Any:
    shape = tuple(getattr(value, "shape", ()))
    size = 1
    for length in shape:
        size *= length
    if size > MAX_ELEMENTS:
        return f"{type(value).__name__} of shape {shape}"
    if type(value).__name__ in ("float16", "float32"):
        return _simple(float(str(value)))  # 0.0001, where the nearest 64-bit number is 9.999999747378752e-05
    try:
        return _plain(value.tolist(), above)
    except Exception:  # a tensor without data
        return _described(value)


def _described(value: Any) -> str:
    """Return the text of a value, without addresses in memory, which differ in every process."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return f"{value.__module__}.{value.__qualname__}"
    try:
        return _text(_ADDRESS.sub("", str(value)))
    except Exception:  # a foreign __str__
        return type(value).__name__


def _text(value: str) -> str:
    """Return a text that the database can store."""
    return storable(str(value))

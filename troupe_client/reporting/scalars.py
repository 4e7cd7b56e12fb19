"""Convert logged values to what an event may hold: flat names of permitted characters, plain numbers."""

import re
from collections.abc import Mapping
from typing import Any

_UNSAFE = re.compile(r"[^A-Za-z0-9_./ -]")
LONGEST = 200


class Scalars:
    """Flattens mappings and cleans names; each name is cleaned once and cached."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}

    def flat(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Convert {"train": {"loss": tensor(0.5)}} to {"train/loss": 0.5}.

        Raises TypeError for a value that is not a number, e.g. text or a picture.
        """
        names, out = self._names, {}
        for key, value in values.items():
            name = names.get(key) or self._name(key)
            if type(value) is float or type(value) is int:
                out[name] = value
            elif isinstance(value, Mapping):
                for below, number in self.flat(value).items():
                    out[f"{name}/{below}"[:LONGEST]] = number
            else:
                out[name] = _number(name, value)
        return out

    def _name(self, key: Any) -> str:
        name = _UNSAFE.sub("_", str(key))[:LONGEST]
        if not name or name[0] in "./ -":
            name = f"_{name}"[:LONGEST]
        self._names[key] = name
        return name


def _number(name: str, value: Any) -> float:
    """Convert bool, numpy and torch scalars, Decimal and Fraction."""
    size = getattr(value, "numel", None) or getattr(value, "size", 1)
    if isinstance(value, str | bytes) or (size() if callable(size) else size) != 1:
        raise TypeError(
            f"{name} must be one number, not {type(value).__name__}; log its mean, or use log_episode"
        )
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: {type(value).__name__} is not a number") from error

"""Convert logged values to what an event may hold: flat names, plain numbers."""

import logging
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from troupe_client.reporting.media import Media, limit_of, media_of
from workers.telemetry.limits import MAX_NAME, NAME_FIRST, NAME_REST

logger = logging.getLogger("troupe")
_STORABLE = re.compile(f"{NAME_FIRST}{NAME_REST}*")
_UNSTORABLE = re.compile(f"(?!{NAME_REST}).|[\ud800-\udfff]", re.DOTALL)
_DIGEST = 8
_LARGEST = 2**63


class Scalars:
    """Flattens mappings and checks names; each name is checked once and cached."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._left_out: set[str] = set()

    def flat(
        self, values: Mapping[str, Any], media: dict[str, list[Media]] | None = None
    ) -> dict[str, float]:
        """Convert {"train": {"loss": tensor(0.5)}} to {"train/loss": 0.5}; `media` receives the media by name.

        Values that are neither, such as text, None and arrays, are left out; a warning names each of them once.
        """
        out: dict[str, float] = {}
        others: dict[str, Any] = {}
        self._fill(out, others, "", values)
        if others:
            self._sort(others, {} if media is None else media)
        return out

    def _fill(
        self, out: dict[str, float], others: dict[str, Any], above: str, values: Mapping[str, Any]
    ) -> None:
        names = self._names
        for key, value in values.items():
            path = f"{above}{key}" if above else key
            if type(value) is float or (type(value) is int and -_LARGEST <= value < _LARGEST):
                out[names.get(path) or self._name(path)] = value
                continue
            if isinstance(value, Mapping):
                self._fill(out, others, f"{path}/", value)
                continue
            name = names.get(path) or self._name(path)
            if (number := number_of(value)) is not None:
                out[name] = number
            else:
                others[name] = value

    def _sort(self, others: Mapping[str, Any], media: dict[str, list[Media]]) -> None:
        """Put media apart, and name the rest in a warning."""
        wrong: dict[str, str] = {}
        for name, value in others.items():
            items = media_of(value)
            reason = limit_of(items) if items else type(value).__name__
            if not reason:
                media[name] = items
            elif name not in self._left_out:
                wrong[name] = reason
        if wrong:
            self._warn(wrong)

    def _name(self, path: Any) -> str:
        """Return the stored name. One that cannot be stored gets the digest of the original, so that no two are merged."""
        original = str(path)
        name = original
        if len(name) > MAX_NAME or not _STORABLE.fullmatch(name) or _UNSTORABLE.search(name):
            digest = sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
            name = _UNSTORABLE.sub("_", original)
            name = name if _STORABLE.match(name) else f"_{name}"
            name = f"{name[: MAX_NAME - _DIGEST - 1]}~{digest}"
            logger.warning("The metric %.300r is stored as %r: %s", original, name, _RULE)
        self._names[path] = name
        return name

    def _warn(self, left_out: Mapping[str, str]) -> None:
        self._left_out |= set(left_out)
        logger.warning(
            "Left out, because log does not take them: %s. It takes one number for each name, and media such as troupe.Text",
            ", ".join(f"{name} ({kind})" for name, kind in left_out.items()),
        )


_RULE = f"names have at most {MAX_NAME} characters, without commas and control characters, and begin with neither / nor a space"


def number_of(value: Any) -> float | None:
    """Convert bool, numpy and torch scalars, Decimal and Fraction; None if it is not one number."""
    try:
        size = getattr(value, "numel", None) or getattr(value, "size", 1)
        if (size() if callable(size) else size) != 1:
            return None
        value = value.item() if hasattr(value, "item") else value
        return None if isinstance(value, str | bytes) else float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except (TypeError, ValueError, RuntimeError):
        return None

"""The x axes of Weights & Biases: `define_metric(name, step_metric=...)`.

A run of Troupe has one axis of steps. A value whose metric has a step metric is reported at the value of that metric, if it is a whole
number; the Trainer and TRL log so against `train/global_step`. Others keep the step of W&B.
"""

from collections.abc import Mapping
from typing import Any

from troupe_client.documents.descriptions import LARGEST_STEP

Values = Mapping[str, Any]
OWN = "_step"
"""W&B's own step."""


class Axes:
    """Which metric has the steps of which others."""

    def __init__(self) -> None:
        self._exact: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        self._last: dict[str, int | None] = {}
        """Last step by step metric, which W&B adds to rows without it; None if it is not a whole number."""

    def define(self, name: str, step_metric: str) -> None:
        """Note a definition of W&B; a name that ends with * is a pattern."""
        if step_metric and name.endswith("*"):
            self._prefixes[_key(name[:-1])] = _key(step_metric)
        elif step_metric:
            self._exact[_key(name)] = _key(step_metric)

    def waiting(self, row: Values) -> set[str]:
        """Return the names whose step metric is not in the row; a later part of it may have it."""
        known = {OWN, "", *map(_key, row)}
        return {name for name in row if self._axis_of(_key(name)) not in known}

    def split(self, row: Values, step: int) -> dict[int, dict[str, Any]]:
        """Return the values of a row by their steps. step: that of W&B."""
        axes = {*self._exact.values(), *self._prefixes.values()}
        self._last |= {_key(name): _whole(value) for name, value in row.items() if _key(name) in axes}
        out: dict[int, dict[str, Any]] = {}
        for name, value in row.items():
            at = self._last.get(self._axis_of(_key(name)))
            out.setdefault(step if at is None else at, {})[name] = value
        return out

    def _axis_of(self, key: str) -> str:
        """The step metric of a metric; a step metric is its own."""
        if key in self._exact:
            return self._exact[key]
        if key in self._exact.values() or key in self._prefixes.values():
            return key
        matches = [prefix for prefix in self._prefixes if key.startswith(prefix)]
        return self._prefixes[max(matches, key=len)] if matches else ""


def _key(name: str) -> str:
    """The name in one spelling: W&B joins nested names by a dot, which it escapes elsewhere, and Troupe by a slash."""
    return name.replace("\\.", ".").replace(".", "/")


def _whole(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and abs(value) <= LARGEST_STEP
    return int(value) if is_number and value == int(value) else None

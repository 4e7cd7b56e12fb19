"""Unfinished episodes as arrays, for checkpoints."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Kept = dict[str, NDArray[Any]]
"""Arrays by name."""


def arrays_of(thing: object, name: str) -> Kept:
    """Copies of all array attributes of an object, under "name.attribute"."""
    return {
        f"{name}.{key}": value.copy() for key, value in vars(thing).items() if isinstance(value, np.ndarray)
    }


def put_back(thing: object, name: str, kept: Mapping[str, NDArray[Any]]) -> None:
    """Restore the arrays of `arrays_of` in an object."""
    start = f"{name}."
    for key, value in kept.items():
        if key.startswith(start):
            setattr(thing, key.removeprefix(start), value.copy())


def part_of(kept: Mapping[str, NDArray[Any]], name: str) -> Kept:
    """The arrays under "name.", without this prefix."""
    start = f"{name}."
    return {key.removeprefix(start): value for key, value in kept.items() if key.startswith(start)}


def under(name: str, kept: Mapping[str, NDArray[Any]]) -> Kept:
    """The arrays with the prefix "name."."""
    return {f"{name}.{key}": value for key, value in kept.items()}


class ActionLog:
    """The actions in each environment since its episode began; with the episode's seed, the episode can be replayed."""

    def __init__(self, count: int) -> None:
        self._rows: list[list[dict[str, NDArray[Any]]]] = [[] for _ in range(count)]

    def begin(self, row: int) -> None:
        """Start a new episode."""
        self._rows[row] = []

    def add(self, row: int, actions: Mapping[str, NDArray[Any]]) -> None:
        """Add a step of one environment, by role (n,) or (n, A)."""
        self._rows[row].append({role: chosen.copy() for role, chosen in actions.items()})

    def kept(self) -> Kept:
        """Lengths (B,), and by role the concatenated actions of all rows."""
        steps = [step for row in self._rows for step in row]
        roles = steps[0] if steps else {}
        actions = {f"actions.{role}": np.stack([step[role] for step in steps]) for role in roles}
        return {"lengths": np.array([len(row) for row in self._rows], dtype=np.int64), **actions}

    @staticmethod
    def steps(kept: Mapping[str, NDArray[Any]]) -> list[list[dict[str, NDArray[Any]]]]:
        """The inverse of `kept`."""
        ends = np.cumsum([0, *kept["lengths"]]).tolist()
        actions = part_of(kept, "actions")
        return [
            [{role: chosen[step] for role, chosen in actions.items()} for step in range(first, end)]
            for first, end in zip(ends, ends[1:], strict=False)
        ]

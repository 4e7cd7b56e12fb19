"""Seeds of episodes, and unfinished episodes as arrays for checkpoints.

A seed follows from the run's seed, the environment's number and its number of played episodes. Therefore an environment plays the
same episodes independent of the number of environments, the process, and earlier play.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.seeding import Words, fold, key_states, uniforms

SEED_BITS = 31
"""Environments pass their seeds to various generators, some of which accept no more bits."""


def episode_seeds(
    seed: int | NDArray[np.int64], numbers: NDArray[np.int64], episodes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Seeds (k,) of the episodes that these environments (k,) begin; `episodes` (k,) counts from 0. `seed`: one, or (k,)."""
    keys = np.stack([np.full_like(numbers, seed), numbers, episodes], axis=1)
    return (key_states(keys) >> np.uint64(64 - SEED_BITS)).astype(np.int64)


def draws(seeds: NDArray[np.int64], steps: NDArray[np.int64] | int, width: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), (k, width), for episodes of these seeds (k,) at these steps (k,)."""
    states: Words = fold(key_states(seeds[:, None]), steps)
    return uniforms(fold(states[:, None], np.arange(width)[None, :]))


Arrays = dict[str, NDArray[Any]]
"""Arrays by name."""


def array_attributes(target: object, name: str) -> Arrays:
    """Copies of all array attributes of an object, under "name.attribute"."""
    return {
        f"{name}.{key}": value.copy() for key, value in vars(target).items() if isinstance(value, np.ndarray)
    }


def restore_attributes(target: object, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Restore the arrays of `array_attributes` in an object."""
    prefix = f"{name}."
    for key, value in arrays.items():
        if key.startswith(prefix):
            setattr(target, key.removeprefix(prefix), value.copy())


def select_prefix(arrays: Mapping[str, NDArray[Any]], name: str) -> Arrays:
    """The arrays under "name.", without this prefix."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def with_prefix(name: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays with the prefix "name."."""
    return {f"{name}.{key}": value for key, value in arrays.items()}


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

    def arrays(self) -> Arrays:
        """Lengths (B,), and by role the concatenated actions of all rows."""
        steps = [step for row in self._rows for step in row]
        roles = steps[0] if steps else {}
        actions = {f"actions.{role}": np.stack([step[role] for step in steps]) for role in roles}
        return {"lengths": np.array([len(row) for row in self._rows], dtype=np.int64), **actions}

    @staticmethod
    def steps(arrays: Mapping[str, NDArray[Any]]) -> list[list[dict[str, NDArray[Any]]]]:
        """The inverse of `arrays`."""
        ends = np.cumsum([0, *arrays["lengths"]]).tolist()
        actions = select_prefix(arrays, "actions")
        return [
            [{role: chosen[step] for role, chosen in actions.items()} for step in range(first, end)]
            for first, end in zip(ends, ends[1:], strict=False)
        ]

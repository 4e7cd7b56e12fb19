"""Observation and action spaces of Gymnasium as arrays: widths, choices, bounds, and back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatdim, flatten

from training_core.errors import ConfigError
from training_core.marl.environments.base import Choices, Continuous, Reals

MASK = "action_mask"


def seen_space(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """What is observed: of {"observation", "action_mask"} the observation."""
    if isinstance(space, spaces.Dict) and MASK in space.spaces and "observation" in space.spaces:
        return space.spaces["observation"]
    return space


def width_of(space: spaces.Space[Any], field: str) -> int:
    """Numbers that an observation has once it is flat. Raises ConfigError where that is not fixed."""
    try:
        return flatdim(seen_space(space))
    except (ValueError, RuntimeError) as error:
        raise ConfigError({field: f"observations of {space} have no fixed number of numbers"}) from error


def flat(space: spaces.Space[Any], seen: Any) -> Reals:
    """An observation as numbers (D,); choices become one-hot."""
    own = seen_space(space)
    inner = seen["observation"] if own is not space else seen
    if isinstance(own, spaces.Box):
        return np.asarray(inner, dtype=np.float32).ravel()
    return np.asarray(flatten(own, inner), dtype=np.float32)


def actions_of(all_spaces: Sequence[spaces.Space[Any]], field: str) -> Choices | Continuous:
    """The action space that a role's agents share: the largest count of choices, or the widest bounds. Raises ConfigError."""
    if all(isinstance(space, spaces.Discrete) for space in all_spaces):
        return Choices(max(int(space.n) for space in all_spaces))  # type: ignore[attr-defined]
    if not all(isinstance(space, spaces.Box) for space in all_spaces):
        raise ConfigError(
            {
                field: f"actions must be all Discrete or all Box within a role, not {', '.join(map(str, all_spaces))}"
            }
        )
    width = max(flatdim(space) for space in all_spaces)
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for space in all_spaces:
        own = flatdim(space)
        low[:own] = np.minimum(low[:own], space.low.ravel())  # type: ignore[attr-defined]
        high[:own] = np.maximum(high[:own], space.high.ravel())  # type: ignore[attr-defined]
    return Continuous(tuple(low.tolist()), tuple(high.tolist()))


def given_to(space: spaces.Space[Any], action: Any) -> Any:
    """An action as the space has it: a choice from its start, or numbers within its bounds, in its shape."""
    if isinstance(space, spaces.Discrete):
        return int(action) + int(space.start)
    assert isinstance(space, spaces.Box)
    numbers = np.asarray(action, dtype=np.float64)[: flatdim(space)].reshape(space.shape)
    return np.clip(numbers, space.low, space.high).astype(space.dtype)

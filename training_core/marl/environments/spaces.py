"""Observation and action spaces of Gymnasium as arrays: widths, choices, bounds, and back."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatdim, flatten
from numpy.typing import NDArray

from training_core.errors import ConfigError
from training_core.marl.environments.base import (
    ActionKind,
    Choices,
    Continuous,
    Flags,
    Pictures,
    Reals,
    SeveralChoices,
)

MASK = "action_mask"


def observation_space_of(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The observation space: the part `observation` of {"observation", "action_mask"}."""
    if isinstance(space, spaces.Dict) and MASK in space.spaces and "observation" in space.spaces:
        return space.spaces["observation"]
    return space


def observation_width(space: spaces.Space[Any], field: str) -> int:
    """Size of a flattened observation. Raises ConfigError if it is not fixed."""
    try:
        return flatdim(observation_space_of(space))
    except (ValueError, RuntimeError) as error:
        raise ConfigError({field: f"observations of {space} have no fixed size"}) from error


def shared_pictures(all_spaces: Sequence[spaces.Space[Any]]) -> Pictures | None:
    """The picture that a role's agents observe: a Box of three dimensions, the same for all; None if there is none."""
    own = [observation_space_of(space) for space in all_spaces]
    first = own[0]
    if not isinstance(first, spaces.Box) or len(first.shape) != 3:
        return None
    kinds = {(space.shape, space.dtype) for space in own}
    height, width, depth = first.shape
    scale = 1 / 255 if first.dtype == np.uint8 else 1.0
    return Pictures((height, width, depth), scale) if len(kinds) == 1 else None


def flatten_observation(space: spaces.Space[Any], seen: Any) -> Reals:
    """An observation as a vector (D,); choices become one-hot. Raises ValueError if its shape is not that of the space."""
    own = observation_space_of(space)
    inner = seen["observation"] if own is not space else seen
    if isinstance(own, spaces.Box):
        numbers = np.asarray(inner, dtype=np.float32)
        if numbers.shape != own.shape:
            raise ValueError(f"it has the shape {numbers.shape}, its observation_space {own.shape}")
        return numbers.ravel()
    return np.asarray(flatten(own, inner), dtype=np.float32)


def choice_counts(space: spaces.Space[Any]) -> tuple[int, ...]:
    """Choices of every set: one of Discrete, several of MultiDiscrete, two for each bit of MultiBinary."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiBinary):
        return (2,) * flatdim(space)
    assert isinstance(space, spaces.MultiDiscrete)
    return tuple(int(count) for count in space.nvec.ravel())


def allowed(space: spaces.Space[Any], counts: Sequence[int], mask: Any = None) -> Flags:
    """(sum of counts,): which of its role's choices an agent with this space has. A set that it does not have has one
    choice.

    mask: which of its choices are allowed now, sets concatenated, or an array for each. Raises ValueError if its size
    differs.
    """
    own = choice_counts(space)
    own_mask = np.ones(sum(own)) if mask is None else np.concatenate([np.ravel(part) for part in mask])
    if len(own_mask) != sum(own):
        raise ValueError(f"action_mask has {len(own_mask)} entries for {sum(own)} choices")
    role_mask = first_choices(counts)
    ends, own_ends = np.cumsum([0, *counts]), np.cumsum([0, *own])
    for first, begin, end in zip(ends, own_ends, own_ends[1:], strict=False):
        role_mask[first : first + end - begin] = own_mask[begin:end]
    return role_mask


def first_choices(counts: Sequence[int]) -> Flags:
    """(sum of counts,): only the first choice of every set."""
    return np.concatenate([np.arange(count) == 0 for count in counts])


def shared_actions(all_spaces: Sequence[spaces.Space[Any]], field: str) -> ActionKind:
    """The action space that a role's agents share: the largest counts of choices, or the widest bounds. Raises ConfigError."""
    if all(isinstance(space, spaces.Discrete) for space in all_spaces):
        return Choices(max(choice_counts(space)[0] for space in all_spaces))
    if all(isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary) for space in all_spaces):
        sets = zip_longest(*map(choice_counts, all_spaces), fillvalue=1)
        return SeveralChoices(tuple(max(counts) for counts in sets))
    if not all(isinstance(space, spaces.Box) for space in all_spaces):
        raise ConfigError(
            {
                field: "actions must be all Discrete, all MultiDiscrete or MultiBinary, or all Box within a role, not "
                + ", ".join(map(str, all_spaces))
            }
        )
    width = max(flatdim(space) for space in all_spaces)
    bounds = np.full((len(all_spaces), 2, width), np.nan)  # NaN: the agent has no such component
    for number, space in enumerate(all_spaces):
        bounds[number, :, : flatdim(space)] = space.low.ravel(), space.high.ravel()  # type: ignore[attr-defined]
    low, high = np.nanmin(bounds[:, 0], axis=0), np.nanmax(bounds[:, 1], axis=0)
    differ = (np.nanmax(bounds[:, 0], axis=0) != low) | (np.nanmin(bounds[:, 1], axis=0) != high)
    if (differ & np.isinf(bounds).any(axis=(0, 1))).any():
        text = (
            "a role's agents have different bounds of a continuous action, and one of them is infinite, so that none "
            f"can be scaled to another: {', '.join(map(str, all_spaces))}."
        )
        raise ConfigError({field: text}, remedy="Give each a role of its own in environment.members")
    return Continuous(tuple(low.tolist()), tuple(high.tolist()))


def action_widths(all_spaces: Sequence[spaces.Space[Any]]) -> tuple[int, ...]:
    """Number of components of each agent's continuous action; empty for choices, and if all have equally many."""
    if not all(isinstance(space, spaces.Box) for space in all_spaces):
        return ()
    widths = tuple(flatdim(space) for space in all_spaces)
    return widths if len(set(widths)) > 1 else ()


def to_space(space: spaces.Space[Any], action: Any, kind: ActionKind) -> Any:
    """An action of its role's `kind` in the form of the space: choices from its start, or components within its bounds,
    in its shape.
    """
    if isinstance(space, spaces.Discrete):
        return int(action) + int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        chosen = np.asarray(action)[: space.nvec.size].reshape(space.shape)
        return (chosen + space.start).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return np.asarray(action)[: flatdim(space)].reshape(space.shape).astype(space.dtype)
    assert isinstance(space, spaces.Box) and isinstance(kind, Continuous)
    components = scaled(np.asarray(action), kind, space.low.ravel(), space.high.ravel())
    return components.reshape(space.shape).astype(space.dtype)


def scaled(components: NDArray[Any], kind: Continuous, low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """(…, width of the role) components -> (…, own width) within an agent's own bounds.

    The role's bounds are mapped linearly onto the agent's, so that the whole of the policy's distribution acts.
    """
    width = len(low)
    numbers = np.array(components[..., :width], dtype=np.float64)
    role_low, role_high = np.array(kind.low[:width]), np.array(kind.high[:width])
    own_low, own_high = low.astype(np.float64), high.astype(np.float64)
    other = (role_low != own_low) | (role_high != own_high)
    share = (numbers - role_low)[..., other] / (role_high - role_low)[other]
    numbers[..., other] = own_low[other] + share * (own_high - own_low)[other]
    return np.clip(numbers, own_low, own_high)

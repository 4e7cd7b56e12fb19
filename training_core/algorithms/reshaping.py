"""Reshaping of turns' rewards before they are compared. Pure functions on numpy arrays.

C candidates of one turn, or N values that are compared in groups. Based on PettingLLMs' reward reshapers, with own
definitions. If rewards are divided by their group's standard deviation, scaling or shifting a whole group has no
effect: discount, turn_weighted and shaped then matter for whole episodes, or with std_level "batch" or "none".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from training_core.algorithms.advantages import Floats, Ints, has_variance

Reshape = Literal["none", "discount", "turn_weighted", "binary", "normalised", "shaped"]


@dataclass(frozen=True)
class Moment:
    """The position of a turn in its episode."""

    turn: int
    """Turn of the team, from 1."""
    turns: int
    """Number of turns of the episode."""
    before: float
    """Reward of the role's executed answer in its previous turn; 0 in its first turn."""


@dataclass(frozen=True)
class Shape:
    """The settings of all reshapers."""

    discount: float
    threshold: float
    weight: float


def discounted(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) times discount^(turn - 1): the first turn is not discounted."""
    return rewards * shape.discount ** (moment.turn - 1)


def turn_weighted(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) times turn / turns: the last turn has weight 1, the first one the least."""
    return rewards * (moment.turn / moment.turns)


def binary(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) 1 if the reward is above the threshold, else 0."""
    return (rewards > shape.threshold).astype(np.float64)


def shaped(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) plus weight x (discount x reward - the previous reward): improving on the role's last answer is rewarded.

    Potential-based, with the reward of the current answer as the potential (Ng, Harada and Russell 1999): over an
    episode with discount 1 the additions sum to weight x the last reward.
    """
    return rewards + shape.weight * (shape.discount * rewards - moment.before)


def as_paid(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) unchanged."""
    return rewards


RESHAPERS: dict[Reshape, Callable[[Floats, Moment, Shape], Floats]] = {
    "none": as_paid,
    "discount": discounted,
    "turn_weighted": turn_weighted,
    "binary": binary,
    "normalised": as_paid,  # needs the whole group: see min_max
    "shaped": shaped,
}
"""By algorithm.reshape: the function that reshapes the rewards of one turn's candidates."""


def min_max(rewards: Floats, groups: Ints) -> Floats:
    """(N,) shifted and scaled within each group, `groups` (N,), so that its lowest is 0 and its highest 1; 0 if all are equal."""
    varied = has_variance(rewards, groups)
    lowest, highest = np.full(len(varied), np.inf), np.full(len(varied), -np.inf)
    np.minimum.at(lowest, groups, rewards)
    np.maximum.at(highest, groups, rewards)
    width = np.where(varied, highest - lowest, 1.0)
    return np.where(varied[groups], (rewards - lowest[groups]) / width[groups], 0.0)

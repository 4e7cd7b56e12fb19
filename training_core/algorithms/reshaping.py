"""Rewards of turns, reshaped before they are compared. Pure functions on numpy arrays.

C candidates of one turn, or N things that are compared in groups. After PettingLLMs' reward reshapers, in our own forms.
Where rewards are divided by their group's standard deviation, what multiplies or shifts a whole group changes nothing:
discount, turn_weighted and shaped then matter for whole episodes, or with std_level "batch" or "none".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from training_core.algorithms.advantages import Floats, Ints, has_variance

Reshape = Literal["none", "discount", "turn_weighted", "binary", "normalised", "shaped"]


@dataclass(frozen=True)
class Moment:
    """When in its episode a turn is."""

    turn: int
    """Of the team, from 1."""
    turns: int
    """That the episode had."""
    before: float
    """What the role's answer of its turn before earned, as it was carried on; 0 in its first turn."""


@dataclass(frozen=True)
class Shape:
    """The settings of all reshapers."""

    discount: float
    threshold: float
    weight: float


def discounted(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) times discount^(turn - 1): what is earned in the first turn is worth all of it."""
    return rewards * shape.discount ** (moment.turn - 1)


def turn_weighted(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) times turn / turns: the last turn counts whole, the first one least."""
    return rewards * (moment.turn / moment.turns)


def binary(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) 1 where the reward is above the threshold, else 0."""
    return (rewards > shape.threshold).astype(np.float64)


def shaped(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) plus weight x (discount x reward - the reward before): what improves on the role's last answer earns more.

    Potential-based, with the reward of the answer that stands as the potential (Ng, Harada and Russell 1999): over an
    episode with discount 1 the additions sum to weight x the last reward.
    """
    return rewards + shape.weight * (shape.discount * rewards - moment.before)


def as_paid(rewards: Floats, moment: Moment, shape: Shape) -> Floats:
    """(C,) as they are."""
    return rewards


RESHAPERS: dict[Reshape, Callable[[Floats, Moment, Shape], Floats]] = {
    "none": as_paid,
    "discount": discounted,
    "turn_weighted": turn_weighted,
    "binary": binary,
    "normalised": as_paid,  # it needs the whole group: see min_max
    "shaped": shaped,
}
"""By algorithm.reshape: what becomes of the rewards of one turn's candidates."""


def min_max(rewards: Floats, groups: Ints) -> Floats:
    """(N,) moved and scaled within each group, `groups` (N,), so that its lowest is 0 and its highest 1; 0 where all are equal."""
    varied = has_variance(rewards, groups)
    lowest, highest = np.full(len(varied), np.inf), np.full(len(varied), -np.inf)
    np.minimum.at(lowest, groups, rewards)
    np.maximum.at(highest, groups, rewards)
    width = np.where(varied, highest - lowest, 1.0)
    return np.where(varied[groups], (rewards - lowest[groups]) / width[groups], 0.0)

"""The steps of an algorithm that are code. An algorithm overrides the steps in which it differs from AT-GRPO.

C candidates of one turn; N compared rewards in G groups; T response tokens. Only `policy_loss` needs torch, because groups are formed
in a process without it.

Rewards are reshaped before they are compared; the reshapers are based on PettingLLMs', with own definitions. If rewards are divided by
their group's standard deviation, scaling or shifting a whole group has no effect: discount, turn_weighted and shaped then matter for
whole episodes, or with std_level "batch" or "none".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import isclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from training_core.algorithms.at_grpo import (
    Floats,
    Ints,
    Normalisation,
    has_variance,
    normalised_advantages,
    whitened,
)
from training_core.algorithms.config import CustomAlgorithm, PolicyGradient
from training_core.errors import ConfigError
from training_core.importing import load_object

if TYPE_CHECKING:
    from torch import Tensor

    from training_core.algorithms.losses import Bounds, Tokens

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


@dataclass(frozen=True)
class ComparedRewards:
    """The N rewards of a policy's batch that are compared: of candidates, or of whole episodes of a role."""

    rewards: Floats
    """(N,) after `turn_rewards` and `group_rewards`."""
    groups: Ints
    """(N,) number of the group, from 0."""
    roles: Sequence[str]
    """(G,) role of each group."""
    informative: NDArray[np.bool_]
    """(G,) whether the candidates of a group get advantages; see `informative_groups`."""
    tokens: Floats
    """(N,) trained tokens."""

    @property
    def live(self) -> NDArray[np.bool_]:
        """(N,) whether the group of a reward is informative."""
        live: NDArray[np.bool_] = self.informative[self.groups]
        return live


class AlgorithmHooks:
    """The steps of AT-GRPO, and of every algorithm that differs from it only by the values of its fields.

    Objects are constructed in several processes and for every batch, so they hold no state between calls. A number
    that continues from batch to batch belongs in `baselines`.
    """

    def __init__(self, algorithm: PolicyGradient) -> None:
        self.algorithm = algorithm

    def turn_rewards(self, rewards: Floats, moment: Moment) -> Floats:
        """The rewards (C,) of one turn that are compared instead of these (C,), by `algorithm.reshape`."""
        algorithm = self.algorithm
        shape = Shape(algorithm.reshape_discount, algorithm.reshape_threshold, algorithm.reshape_weight)
        return RESHAPERS[algorithm.reshape](rewards, moment, shape)

    def group_rewards(self, rewards: Floats, groups: Ints) -> Floats:
        """The rewards (N,) that are compared instead of these (N,), whose groups `groups` (N,) are complete."""
        return min_max(rewards, groups) if self.algorithm.reshape == "normalised" else rewards

    def advantages(self, compared: ComparedRewards, baselines: dict[str, float]) -> Floats:
        """The advantages (N,). `baselines` continue from batch to batch and are stored in checkpoints; update them in place."""
        values, weights = self.normalised(compared, baselines), self.reward_weights(compared)
        if not self.algorithm.batch_whitening:
            return values
        return whitened(values, compared.live, unbiased=self.algorithm.unbiased_std, weights=weights)

    def normalised(self, compared: ComparedRewards, baselines: dict[str, float]) -> Floats:
        """The advantages (N,) before whitening: rewards less their mean, over their deviation; 0 in other groups."""
        settings = replace(normalisation(self.algorithm), drop_equal=False)  # `live` decides
        weights = self.reward_weights(compared)
        values = normalised_advantages(compared.rewards, compared.groups, settings, weights)
        return np.where(compared.live, values, 0.0)

    def reward_weights(self, compared: ComparedRewards) -> Floats | None:
        """The weight (N,) of each reward in statistics of the batch; None for equal weights."""
        return None

    def penalised_advantages(
        self, compared: ComparedRewards, penalised: Floats, advantages: Floats
    ) -> Floats:
        """The advantages (N,) if `penalised` (N,), rewards less their KL penalty, replace the compared rewards.

        `advantages` (N,) are those without the penalty. Called in the learner, which has no baselines, for kl_in =
        "reward".
        """
        return self.advantages(replace(compared, rewards=penalised), {})

    def policy_loss(self, tokens: "Tokens", bounds: "Bounds") -> "tuple[Tensor, Tensor]":
        """The loss of each token (T,) and whether the token was clipped (T,), by `algorithm.policy_loss`."""
        from training_core.algorithms.losses import POLICY_LOSSES

        return POLICY_LOSSES[self.algorithm.policy_loss](tokens, bounds)


def normalisation(algorithm: PolicyGradient) -> Normalisation:
    """The normalisation of an algorithm's advantages."""
    return Normalisation(
        algorithm.mean_level,
        algorithm.std_level,
        algorithm.leave_one_out,
        algorithm.unbiased_std,
        algorithm.drop_zero_variance,
    )


FIELD = "algorithm.path"


def checked_numbers(result: Any, count: int, hooks: object, method: str) -> Floats:
    """The result (count,) of a method of `hooks`. Raises ConfigError for another shape."""
    try:
        numbers = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _wrong(hooks, method, f"{type(result).__name__}: {error}", f"({count},)") from error
    if numbers.shape != (count,):
        raise _wrong(hooks, method, f"an array of shape {numbers.shape}", f"({count},)")
    return numbers


def checked_loss(result: Any, tokens: int, hooks: object) -> Any:
    """The pair of tensors (tokens,) that `policy_loss` of `hooks` returned. Raises ConfigError for another shape."""
    parts = result if isinstance(result, tuple) else (result,)
    shapes = [tuple(getattr(part, "shape", ())) for part in parts]
    if shapes != [(tokens,), (tokens,)]:
        raise _wrong(hooks, "policy_loss", f"values of shape {shapes}", f"({tokens},) for loss and clipped")
    return result


def _wrong(hooks: object, method: str, returned: str, shape: str) -> ConfigError:
    text = f"{type(hooks).__name__}.{method} returned {returned}"
    return ConfigError({FIELD: text}, remedy=f"return one number for each entry, shape {shape}")


def custom_hooks(algorithm: CustomAlgorithm) -> AlgorithmHooks:
    """The custom class's object. Raises ConfigError if there is no such class, or if it cannot be constructed."""
    hooks = load_object(algorithm.path, FIELD)
    if not (isclass(hooks) and issubclass(hooks, AlgorithmHooks)):
        text = f"{algorithm.path} is not a subclass of AlgorithmHooks of training_core/algorithms/hooks.py"
        raise ConfigError({FIELD: text}, remedy="derive it from that class")
    try:
        return hooks(algorithm)
    except Exception as error:  # the constructor is the user's
        reason = f"{type(error).__name__}: {error}"
        text = f"{algorithm.path} cannot be constructed with the algorithm's config as its only argument: {reason}"
        raise ConfigError({FIELD: text}) from error


class TokenReturnsHooks(AlgorithmHooks):
    """Statistics of the batch are over tokens, because every token is an action."""

    def reward_weights(self, compared: ComparedRewards) -> Floats | None:
        return compared.tokens

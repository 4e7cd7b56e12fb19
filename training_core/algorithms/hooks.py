"""The steps of an algorithm that are code. An algorithm overrides the steps in which it differs from AT-GRPO.

C candidates of one turn; N compared rewards in G groups; T response tokens. Only `policy_loss` needs torch, because
groups are formed in a process without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from training_core.algorithms.advantages import (
    Floats,
    Ints,
    Normalisation,
    normalised_advantages,
    whitened,
)
from training_core.algorithms.policy_gradient_config import PolicyGradient
from training_core.algorithms.reshaping import RESHAPERS, Moment, Shape, min_max

if TYPE_CHECKING:
    from torch import Tensor

    from training_core.algorithms.loss_inputs import Bounds, Tokens


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
        from training_core.algorithms.policy_losses import POLICY_LOSSES

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

"""The config of RLOO."""

from typing import Literal

from training_core.algorithms.policy_gradient_config import (
    KlCoefficient,
    KlEstimator,
    KlIn,
    LeaveOneOut,
    PolicyGradient,
    PolicyLoss,
    StdLevel,
)


class Rloo(PolicyGradient):
    """REINFORCE with a leave-one-out baseline (RLOO, arXiv 2402.14740)."""

    type: Literal["rloo"] = "rloo"
    """Each answer's baseline is the mean of its group's other rewards; KL to the base model is part of the reward."""
    leave_one_out: LeaveOneOut = True
    std_level: StdLevel = "none"
    policy_loss: PolicyLoss = "reinforce"
    kl_coefficient: KlCoefficient = 0.03
    kl_estimator: KlEstimator = "k1"
    kl_in: KlIn = "reward"

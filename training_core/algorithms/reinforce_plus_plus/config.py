"""The config of REINFORCE++, without and with a baseline."""

from typing import Literal

from pydantic import Field

from training_core.algorithms.policy_gradient_config import (
    DropZeroVariance,
    DualClip,
    KlCoefficient,
    KlEstimator,
    KlIn,
    MeanLevel,
    PolicyGradient,
    StdLevel,
    Whitening,
)


class TokenReturns(PolicyGradient):
    """Base of the two forms of REINFORCE++: a return for every token."""

    discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: discount of the reward per token; 1 gives all tokens of a response the same return."""


class ReinforcePlusPlus(TokenReturns):
    """PPO's clipped loss without a critic, normalised over the batch (REINFORCE++, arXiv 2501.03262)."""

    type: Literal["reinforce_plus_plus"] = "reinforce_plus_plus"
    """Rewards normalised over the whole batch: a group of one is sufficient; KL to the base model is part of the reward."""
    mean_level: MeanLevel = "batch"
    std_level: StdLevel = "batch"
    dual_clip: DualClip = 0.0
    drop_zero_variance: DropZeroVariance = False
    kl_coefficient: KlCoefficient = 0.01
    kl_estimator: KlEstimator = "k1"
    kl_in: KlIn = "reward"


class ReinforcePlusPlusBaseline(TokenReturns):
    """REINFORCE++ with the group's mean as baseline, then normalised over the batch (arXiv 2501.03262, section 4)."""

    type: Literal["reinforce_plus_plus_baseline"] = "reinforce_plus_plus_baseline"
    """Rewards minus their group's mean, then normalised over the batch; KL to the base model in the loss."""
    std_level: StdLevel = "none"
    batch_whitening: Whitening = True
    dual_clip: DualClip = 0.0
    kl_coefficient: KlCoefficient = 0.01
    kl_estimator: KlEstimator = "k2"

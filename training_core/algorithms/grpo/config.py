"""The config of GRPO."""

from typing import Literal

from training_core.algorithms.policy_gradient_config import (
    DualClip,
    KlCoefficient,
    LossAverage,
    PolicyGradient,
)


class Grpo(PolicyGradient):
    """Group-relative policy optimisation (GRPO, arXiv 2402.03300): K answers are compared with each other."""

    type: Literal["grpo"] = "grpo"
    """Rewards normalised within their group; a mean per response, then over responses; KL to the base model in the loss."""
    dual_clip: DualClip = 0.0
    loss_average: LossAverage = "sequence"
    kl_coefficient: KlCoefficient = 0.04

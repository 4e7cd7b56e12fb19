"""The config of Dr. GRPO."""

from typing import Literal

from training_core.algorithms.policy_gradient_config import DualClip, LossAverage, PolicyGradient, StdLevel


class DrGrpo(PolicyGradient):
    """GRPO without the bias towards long answers and easy groups (Dr. GRPO, arXiv 2503.20783)."""

    type: Literal["dr_grpo"] = "dr_grpo"
    """Rewards minus their group's mean, not divided; token losses divided by a constant length."""
    std_level: StdLevel = "none"
    dual_clip: DualClip = 0.0
    loss_average: LossAverage = "constant"

"""The config of GSPO."""

from typing import Literal

from training_core.algorithms.policy_gradient_config import (
    ClipHigh,
    ClipLow,
    DualClip,
    LossAverage,
    PolicyGradient,
    PolicyLoss,
)


class Gspo(PolicyGradient):
    """Group sequence policy optimisation: one ratio per sequence (GSPO, arXiv 2507.18071)."""

    type: Literal["gspo"] = "gspo"
    """The ratio of a response is the geometric mean of its tokens' ratios, clipped tightly; every response has the same weight."""
    policy_loss: PolicyLoss = "sequence_clip"
    clip_low: ClipLow = 3e-4
    clip_high: ClipHigh = 4e-4
    dual_clip: DualClip = 0.0
    loss_average: LossAverage = "sequence"

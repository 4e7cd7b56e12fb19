"""The config of CISPO."""

from typing import Literal

from training_core.algorithms.policy_gradient_config import (
    ClipHigh,
    ClipLow,
    DualClip,
    PolicyGradient,
    PolicyLoss,
)


class Cispo(PolicyGradient):
    """Clipped importance weights on a REINFORCE loss: no token loses its gradient (CISPO, arXiv 2506.13585)."""

    type: Literal["cispo"] = "cispo"
    """The ratio is a weight without gradient, bounded above; every token contributes gradient."""
    policy_loss: PolicyLoss = "cispo"
    clip_low: ClipLow = 1.0
    clip_high: ClipHigh = 4.0
    dual_clip: DualClip = 0.0

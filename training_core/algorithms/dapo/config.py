"""The config of DAPO."""

from typing import Literal

from training_core.algorithms.policy_gradient_config import ClipHigh, DualClip, OverlongShare, PolicyGradient


class Dapo(PolicyGradient):
    """Decoupled clip and dynamic sampling (DAPO, arXiv 2503.14476)."""

    type: Literal["dapo"] = "dapo"
    """A higher upper clip, a mean over tokens, no KL, groups without variance excluded, a soft limit on length."""
    clip_high: ClipHigh = 0.28
    dual_clip: DualClip = 0.0
    overlong_share: OverlongShare = 0.2

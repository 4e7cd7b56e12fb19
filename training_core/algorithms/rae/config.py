"""The config of RAE."""

from typing import Literal, Self

from pydantic import Field

from training_core.algorithms.policy_gradient_config import (
    DropZeroVariance,
    DualClip,
    LossAverage,
    MeanLevel,
    PolicyGradient,
    StdLevel,
)
from training_core.config.base import cross_field


class Rae(PolicyGradient):
    """Role-conditioned advantage estimation for self-play (RAE, SPIRAL, arXiv 2506.24119)."""

    type: Literal["rae"] = "rae"
    """Rewards minus a moving average of their role's rewards; stored in checkpoints. A group of one is sufficient."""
    mean_level: MeanLevel = "none"
    std_level: StdLevel = "none"
    dual_clip: DualClip = 0.0
    loss_average: LossAverage = "constant"
    drop_zero_variance: DropZeroVariance = False
    baseline_decay: float = Field(0.95, ge=0.0, lt=1.0)
    """Decay of a role's baseline: each new reward has weight 1 - baseline_decay."""

    @cross_field
    def _kl_is_charged_before_normalisation(self) -> Self:
        normalised = self.batch_whitening or {self.mean_level, self.std_level} != {"none"}
        if self.kl_coefficient and self.kl_in == "reward" and normalised:
            raise ValueError(
                'kl_in: the baselines of "rae" are computed from rewards before the KL is known; use kl_in = "loss", or '
                'mean_level = std_level = "none" without batch_whitening'
            )
        return self

"""Algorithms by `type`; the defaults are the vetted setting."""

from typing import Literal

from pydantic import Field

from training_core.config.base import Section


class AtGrpo(Section):
    """Agent- and turn-wise group-relative policy optimisation (AT-GRPO, arXiv 2510.11062)."""

    type: Literal["at_grpo"] = "at_grpo"
    """Groups are (task, agent, turn); candidates of a group share one state."""
    team_weight: float = Field(1.0, ge=0.0)
    """Alpha: weight of the team's reward in a candidate's reward."""
    local_weight: float = Field(1.0, ge=0.0)
    """Beta: weight of the role's local reward in a candidate's reward."""
    mean_level: Literal["group", "batch", "none"] = "group"
    """Over what the mean is taken that is subtracted from rewards."""
    std_level: Literal["group", "batch", "none"] = "group"
    """Over what the unbiased standard deviation is taken that divides them."""
    leave_one_out: bool = False
    """Leave a candidate's own reward out of its mean."""
    clip_low: float = Field(0.2, ge=0.0, le=1.0)
    """Lower clip of the probability ratio: 1 - clip_low."""
    clip_high: float = Field(0.2, ge=0.0)
    """Upper clip of the probability ratio: 1 + clip_high."""
    dual_clip: float = Field(3.0, ge=0.0)
    """Bound on the loss of tokens with negative advantage, as a multiple of the advantage; 0 disables."""
    entropy_coefficient: float = Field(0.0, ge=0.0)
    """Weight of the entropy bonus in the loss; 0 disables."""
    kl_coefficient: float = Field(0.0, ge=0.0)
    """Weight in the loss of the KL divergence from the base model; 0 disables (and saves its forward pass)."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    """Estimator of that KL (Schulman, "Approximating KL divergence")."""
    loss_average: Literal["token", "sequence"] = "token"
    """token: mean over all response tokens of a minibatch; sequence: mean per response first."""
    drop_zero_variance: bool = True
    """Leave groups whose rewards are all equal, and whose advantages are 0 for it, out of the loss (they are counted either way)."""


Algorithm = AtGrpo
"""One class per algorithm, told apart by `type`; becomes a union with the second one."""

ALGORITHM_CONFIGS: dict[str, type[Section]] = {"at_grpo": AtGrpo}

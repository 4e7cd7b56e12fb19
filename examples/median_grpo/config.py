"""The config of AT-GRPO with a median as the baseline."""

from typing import Literal

from pydantic import Field

from training_core.algorithms.config import PolicyGradient


class MedianGrpo(PolicyGradient):
    """AT-GRPO with a baseline that a single extreme reward does not move."""

    type: Literal["median_grpo"] = "median_grpo"
    """Rewards minus the median of their group, not divided."""
    scale: float = Field(1.0, gt=0.0)
    """Factor of the advantages."""

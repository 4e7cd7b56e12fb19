"""The config of PPO with a KL penalty."""

from typing import Literal

from pydantic import Field

from training_core.marl.algorithms.config import MarlPpo


class PenalisedPpo(MarlPpo):
    """Independent PPO with a KL penalty instead of the clip (arXiv 1707.06347, section 4)."""

    type: Literal["penalised_ppo"] = "penalised_ppo"
    """Decentralised critic; the ratio is not clipped."""
    beta: float = Field(1.0, ge=0.0)
    """Weight of the KL divergence from the policy that sampled the data."""

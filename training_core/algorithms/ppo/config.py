"""The config of PPO."""

from typing import Literal, Self

from pydantic import Field

from training_core.algorithms.policy_gradient_config import (
    DropZeroVariance,
    DualClip,
    KlEstimator,
    KlIn,
    MeanLevel,
    PolicyGradient,
    StdLevel,
)
from training_core.config.base import cross_field


class ActorCritic(PolicyGradient):
    """Base of algorithms with a critic: a value head on the policy's trunk, and advantages of tokens by GAE."""

    discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: discount of the reward per token."""
    gae_lambda: float = Field(0.95, ge=0.0, le=1.0)
    """0 relies on the values only (least variance), 1 on the observed returns only (no bias)."""
    whiten_advantages: bool = True
    """Normalise token advantages by mean and standard deviation over the policy's batch."""
    value_coefficient: float = Field(0.5, ge=0.0)
    """Weight of the value loss relative to the policy loss; both backpropagate through the shared trunk."""
    value_clip: float = Field(0.2, ge=0.0)
    """Value predictions are clipped to within this distance of those at the start of the update; 0 disables."""
    value_learning_rate: float = Field(1e-3, gt=0.0)
    """Constant learning rate of the value head's AdamW; the trunk uses the learner's."""

    @cross_field
    def _the_critic_sees_what_was_earned(self) -> Self:
        if "group" in (self.mean_level, self.std_level):
            raise ValueError(
                "mean_level, std_level: a critic predicts the reward of an answer, and a group of equal rewards "
                "would count as 0; use "
                '"none" or "batch"'
            )
        return self


class Ppo(ActorCritic):
    """Proximal policy optimisation with a critic (PPO, arXiv 1707.06347; GAE, arXiv 1506.02438)."""

    type: Literal["ppo"] = "ppo"
    """A value head on the policy's trunk; token advantages by GAE, the reward on the last token. A group of one is sufficient."""
    mean_level: MeanLevel = "none"
    std_level: StdLevel = "none"
    dual_clip: DualClip = 0.0
    drop_zero_variance: DropZeroVariance = False
    kl_estimator: KlEstimator = "k1"
    kl_in: KlIn = "reward"

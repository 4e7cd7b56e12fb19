"""The learner of PPO with a KL penalty."""

from torch import Tensor

from examples.penalised_ppo.config import PenalisedPpo
from training_core.marl.learning.learner import PolicyLearner


class PenalisedPpoLearner(PolicyLearner):
    """-(r A) + beta (r - 1 - log r), whose second term is an unbiased estimate of the KL divergence."""

    algorithm: PenalisedPpo

    def policy_loss(self, log_ratio: Tensor, advantages: Tensor) -> Tensor:
        ratio = log_ratio.exp()
        return -ratio * advantages + self.algorithm.beta * (ratio - 1 - log_ratio)

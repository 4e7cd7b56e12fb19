"""PPO with a KL penalty instead of the clip (Schulman et al. 2017, section 4), as a custom algorithm. See docs/train/custom.md."""

from torch import Tensor

from training_core.marl.algorithms.config import CustomPpo
from training_core.marl.learning.learner import PolicyLearner


class PenalisedPpo(PolicyLearner):
    """-(r A) + beta KL, with `beta` from algorithm.args."""

    def policy_loss(self, log_ratio: Tensor, advantages: Tensor) -> Tensor:
        assert isinstance(self.algorithm, CustomPpo)
        beta = float(self.algorithm.args.get("beta", 1.0))
        ratio = log_ratio.exp()
        return -ratio * advantages + beta * (ratio - 1 - log_ratio)

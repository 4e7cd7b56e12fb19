"""Role-conditioned advantage estimation (RAE): the steps in which it differs, with a baseline per role that follows the role's returns.

SPIRAL (arXiv 2506.24119, algorithm 1): in self-play with one policy the roles of a game have different expected
returns (the first mover may have an advantage), so each role has an exponential moving average of its own returns, b
<- decay x b + (1 - decay) x R, then A = R - b. Needs no group: one answer per state is sufficient. Pure numpy
functions, because they run where groups are formed.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from training_core.algorithms.at_grpo import Floats
from training_core.algorithms.config import Rae
from training_core.algorithms.hooks import AlgorithmHooks, ComparedRewards


def role_advantages(
    rewards: Floats, roles: Sequence[str], baselines: Mapping[str, float], decay: float
) -> tuple[Floats, dict[str, float]]:
    """Advantages (N,) of the rewards (N,) of these roles (N,), in that order, and the roles' updated baselines.

    `baselines` are the previous ones, 0 for a missing role. As in the paper, a reward first updates its baseline and
    is then compared with it, so an advantage is decay x (R - the previous baseline).
    """
    after = dict(baselines)
    advantages = np.zeros_like(rewards)
    for index, (reward, role) in enumerate(zip(rewards.tolist(), roles, strict=True)):
        after[role] = decay * after.get(role, 0.0) + (1.0 - decay) * reward
        advantages[index] = reward - after[role]
    return advantages, after


class RaeHooks(AlgorithmHooks):
    """Advantages are the distance of rewards from a baseline of their role."""

    algorithm: Rae

    def normalised(self, compared: ComparedRewards, baselines: dict[str, float]) -> Floats:
        roles = [compared.roles[group] for group in compared.groups]
        advantages, after = role_advantages(
            super().normalised(compared, baselines), roles, baselines, self.algorithm.baseline_decay
        )
        baselines.update(after)
        return advantages

    def penalised_advantages(
        self, compared: ComparedRewards, penalised: Floats, advantages: Floats
    ) -> Floats:
        return advantages - (compared.rewards - penalised)  # baselines follow the original rewards

"""Role-conditioned advantage estimation (RAE): a baseline per role that follows the role's returns.

SPIRAL (arXiv 2506.24119, algorithm 1): in self-play with one policy the roles of a game have different expected
returns (the first mover may have an advantage), so each role has an exponential moving average of its own returns, b
<- decay x b + (1 - decay) x R, then A = R - b. Needs no group: one answer per state is sufficient. Pure numpy
functions, because they run where groups are formed.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from training_core.algorithms.advantages import Floats


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

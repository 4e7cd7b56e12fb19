"""Role-conditioned advantage estimation (RAE): a baseline per role that follows what the role has earned.

SPIRAL (arXiv 2506.24119, algorithm 1): in self-play with one policy the roles of a game do not earn alike (who moves first may
have the better game), so each role has an exponential moving average of its own returns, b <- decay x b + (1 - decay) x R,
then A = R - b. Needs no group: one answer per state will do. Pure, and of numpy: it runs where groups are formed.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from training_core.algorithms.advantages import Floats


def role_advantages(
    rewards: Floats, roles: Sequence[str], baselines: Mapping[str, float], decay: float
) -> tuple[Floats, dict[str, float]]:
    """Advantages (N,) of rewards (N,) that these roles (N,) earned, in that order, and the roles' baselines afterwards.

    `baselines` are those before, 0 for a role that is not among them. As in the paper a reward moves its baseline first
    and is compared with it then, so that an advantage is decay x (R - the baseline before).
    """
    after = dict(baselines)
    advantages = np.zeros_like(rewards)
    for place, (reward, role) in enumerate(zip(rewards.tolist(), roles, strict=True)):
        after[role] = decay * after.get(role, 0.0) + (1.0 - decay) * reward
        advantages[place] = reward - after[role]
    return advantages, after

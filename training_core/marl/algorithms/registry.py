"""Algorithms of small networks by the `type` of their config: one folder and one line each.

Only the `config` modules are imported here. Learners are imported when they are first used.
"""

from dataclasses import dataclass

from training_core.marl.algorithms.custom_ppo.config import CustomPpo
from training_core.marl.algorithms.ippo.config import Ippo
from training_core.marl.algorithms.mappo.config import Mappo
from training_core.marl.algorithms.ppo_config import MarlPpo


@dataclass(frozen=True)
class MarlAlgorithmKind:
    """One type of algorithm."""

    config: type[MarlPpo]
    learner: str = "training_core.marl.learning.learner:PolicyLearner"
    """"package.module:Class" of its PolicyLearner; empty if the config names it."""


MARL_ALGORITHMS: dict[str, MarlAlgorithmKind] = {
    "mappo": MarlAlgorithmKind(Mappo),
    "ippo": MarlAlgorithmKind(Ippo),
    "custom_ppo": MarlAlgorithmKind(CustomPpo, learner=""),
}
"""Algorithms by type, in the order of the pages."""

"""Algorithms of small networks by the `type` of their config. Learners are imported when they are first used."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from training_core.config.base import one_of
from training_core.marl.algorithms.config import CustomPpo, Ippo, Mappo, MarlPpo


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
MARL_ALGORITHM_CONFIGS: dict[str, type[MarlPpo]] = {tag: kind.config for tag, kind in MARL_ALGORITHMS.items()}
"""type -> config class."""

if TYPE_CHECKING:
    AnyMarlAlgorithm = MarlPpo
else:
    AnyMarlAlgorithm = one_of(MARL_ALGORITHM_CONFIGS)

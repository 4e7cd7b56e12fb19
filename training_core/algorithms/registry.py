"""Algorithms of language models by the `type` of their config: one folder and one line each.

Only the `config` modules are imported here. The rest of an algorithm is imported when it is first used.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from training_core.algorithms.at_grpo.config import AtGrpo
from training_core.algorithms.cispo.config import Cispo
from training_core.algorithms.custom.config import CustomAlgorithm
from training_core.algorithms.dapo.config import Dapo
from training_core.algorithms.dr_grpo.config import DrGrpo
from training_core.algorithms.grpo.config import Grpo
from training_core.algorithms.gspo.config import Gspo
from training_core.algorithms.policy_gradient_config import PolicyGradient
from training_core.algorithms.ppo.config import Ppo
from training_core.algorithms.rae.config import Rae
from training_core.algorithms.reinforce_plus_plus.config import ReinforcePlusPlus, ReinforcePlusPlusBaseline
from training_core.algorithms.rloo.config import Rloo
from training_core.importing import resolve

if TYPE_CHECKING:
    from training_core.algorithms.hooks import AlgorithmHooks

FOLDER = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class AlgorithmKind:
    """One type of algorithm."""

    config: type[PolicyGradient]
    hooks: str = "hooks:AlgorithmHooks"
    """"folder.module:Name" in this package: config section -> AlgorithmHooks."""


ALGORITHMS: dict[str, AlgorithmKind] = {
    "at_grpo": AlgorithmKind(AtGrpo),
    "grpo": AlgorithmKind(Grpo),
    "dr_grpo": AlgorithmKind(DrGrpo),
    "rloo": AlgorithmKind(Rloo),
    "reinforce_plus_plus": AlgorithmKind(ReinforcePlusPlus, "reinforce_plus_plus.hooks:TokenReturnsHooks"),
    "reinforce_plus_plus_baseline": AlgorithmKind(
        ReinforcePlusPlusBaseline, "reinforce_plus_plus.hooks:TokenReturnsHooks"
    ),
    "gspo": AlgorithmKind(Gspo),
    "cispo": AlgorithmKind(Cispo),
    "dapo": AlgorithmKind(Dapo),
    "ppo": AlgorithmKind(Ppo),
    "rae": AlgorithmKind(Rae, "rae.hooks:RaeHooks"),
    "custom": AlgorithmKind(CustomAlgorithm, "custom.hooks:custom_hooks"),
}
"""Algorithms by type, in the order of the pages."""


def make_hooks(algorithm: PolicyGradient) -> "AlgorithmHooks":
    """The steps of a config's algorithm. Raises ConfigError if custom code cannot be loaded."""
    hooks: AlgorithmHooks = resolve(f"{FOLDER}.{ALGORITHMS[algorithm.type].hooks}")(algorithm)
    return hooks

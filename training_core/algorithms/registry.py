"""Algorithms of language models by the `type` of their config (config.py). Their steps are imported when they are first used."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from training_core.algorithms.config import (
    AtGrpo,
    Cispo,
    CustomAlgorithm,
    Dapo,
    DrGrpo,
    Grpo,
    Gspo,
    PolicyGradient,
    Ppo,
    Rae,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    Rloo,
)
from training_core.config.base import one_of
from training_core.importing import resolve

if TYPE_CHECKING:
    from training_core.algorithms.hooks import AlgorithmHooks

FOLDER = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class AlgorithmKind:
    """One type of algorithm."""

    config: type[PolicyGradient]
    hooks: str = "hooks:AlgorithmHooks"
    """"module:Name" in this package: config section -> AlgorithmHooks."""


ALGORITHMS: dict[str, AlgorithmKind] = {
    "at_grpo": AlgorithmKind(AtGrpo),
    "grpo": AlgorithmKind(Grpo),
    "dr_grpo": AlgorithmKind(DrGrpo),
    "rloo": AlgorithmKind(Rloo),
    "reinforce_plus_plus": AlgorithmKind(ReinforcePlusPlus, "hooks:TokenReturnsHooks"),
    "reinforce_plus_plus_baseline": AlgorithmKind(ReinforcePlusPlusBaseline, "hooks:TokenReturnsHooks"),
    "gspo": AlgorithmKind(Gspo),
    "cispo": AlgorithmKind(Cispo),
    "dapo": AlgorithmKind(Dapo),
    "ppo": AlgorithmKind(Ppo),
    "rae": AlgorithmKind(Rae, "rae:RaeHooks"),
    "custom": AlgorithmKind(CustomAlgorithm, "hooks:custom_hooks"),
}
"""Algorithms by type, in the order of the pages."""


ALGORITHM_CONFIGS: dict[str, type[PolicyGradient]] = {tag: kind.config for tag, kind in ALGORITHMS.items()}
"""type -> config class."""

if TYPE_CHECKING:
    Algorithm = PolicyGradient
else:
    Algorithm = one_of(ALGORITHM_CONFIGS)


def make_hooks(algorithm: PolicyGradient) -> "AlgorithmHooks":
    """The steps of a config's algorithm. Raises ConfigError if custom code cannot be loaded."""
    hooks: AlgorithmHooks = resolve(f"{FOLDER}.{ALGORITHMS[algorithm.type].hooks}")(algorithm)
    return hooks

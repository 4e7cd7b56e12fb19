"""Which kind of config a plain tree is: of language-model agents, or of small-network agents. The algorithm says so."""

from collections.abc import Mapping
from typing import Any

from training_core.config.experiment import ExperimentConfig
from training_core.config.marl.algorithms import MARL_ALGORITHM_CONFIGS
from training_core.config.marl.run import MarlConfig
from training_core.config.run import RunConfig

AnyConfig = RunConfig | MarlConfig
CONFIGS: dict[str, type[ExperimentConfig]] = {"language_models": RunConfig, "networks": MarlConfig}
"""What the agents are, and their config."""


def agents_of(tree: Mapping[str, Any]) -> str:
    """What plays under a plain tree, by its name in CONFIGS."""
    return next(name for name, config in CONFIGS.items() if config is config_class(tree))


def config_class(tree: Mapping[str, Any]) -> type[RunConfig] | type[MarlConfig]:
    """The class that a tree is to be read as; one without a known algorithm is of language-model agents."""
    algorithm = tree.get("algorithm")
    kind = algorithm.get("type") if isinstance(algorithm, Mapping) else None
    return MarlConfig if isinstance(kind, str) and kind in MARL_ALGORITHM_CONFIGS else RunConfig

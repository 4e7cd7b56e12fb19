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


def has_networks(tree: Mapping[str, Any]) -> bool:
    """Whether small networks play under a plain tree; without a known algorithm they are language models."""
    algorithm = tree.get("algorithm")
    kind = algorithm.get("type") if isinstance(algorithm, Mapping) else None
    return isinstance(kind, str) and kind in MARL_ALGORITHM_CONFIGS


def agents_of(tree: Mapping[str, Any]) -> str:
    """What plays under a plain tree, by its name in CONFIGS."""
    return "networks" if has_networks(tree) else "language_models"


def config_class(tree: Mapping[str, Any]) -> type[RunConfig] | type[MarlConfig]:
    """The class that a tree is to be read as."""
    return MarlConfig if has_networks(tree) else RunConfig

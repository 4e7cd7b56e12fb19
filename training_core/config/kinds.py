"""The kind of config of a plain tree: language-model agents or small-network agents. The algorithm determines it."""

from collections.abc import Mapping
from typing import Any

from training_core.config.algorithms import ALGORITHM_CONFIGS
from training_core.config.experiment import ExperimentConfig
from training_core.config.marl.algorithms import MARL_ALGORITHM_CONFIGS
from training_core.config.marl.environments import MARL_ENVIRONMENT_CONFIGS
from training_core.config.marl.run import MarlConfig
from training_core.config.run import RunConfig

AnyConfig = RunConfig | MarlConfig
CONFIGS: dict[str, type[ExperimentConfig]] = {"language_models": RunConfig, "networks": MarlConfig}
"""Kinds of agents, with their config class."""


def has_networks(tree: Mapping[str, Any]) -> bool:
    """Whether a plain tree describes small networks. With an unknown algorithm the environment decides, so that the
    algorithm is the only error; without any, the tree describes language models.
    """
    algorithm, environment = _type_of(tree, "algorithm"), _type_of(tree, "environment")
    if algorithm is None or algorithm in ALGORITHM_CONFIGS:
        return False
    return algorithm in MARL_ALGORITHM_CONFIGS or environment in MARL_ENVIRONMENT_CONFIGS


def _type_of(tree: Mapping[str, Any], part: str) -> str | None:
    """The `type` of a part; None if it is missing or not a string."""
    section = tree.get(part)
    kind = section.get("type") if isinstance(section, Mapping) else None
    return kind if isinstance(kind, str) else None


def agents_of(tree: Mapping[str, Any]) -> str:
    """The kind of agents of a plain tree: a key of CONFIGS."""
    return "networks" if has_networks(tree) else "language_models"


def config_class(tree: Mapping[str, Any]) -> type[RunConfig] | type[MarlConfig]:
    """The config class for a tree."""
    return MarlConfig if has_networks(tree) else RunConfig

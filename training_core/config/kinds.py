"""The kind of config of a plain tree: language-model agents or small-network agents. The algorithm determines it."""

from collections.abc import Mapping
from typing import Any

from training_core.config.experiment import ExperimentConfig
from training_core.config.marl.algorithms import MARL_ALGORITHM_CONFIGS
from training_core.config.marl.run import MarlConfig
from training_core.config.run import RunConfig

AnyConfig = RunConfig | MarlConfig
CONFIGS: dict[str, type[ExperimentConfig]] = {"language_models": RunConfig, "networks": MarlConfig}
"""Kinds of agents, with their config class."""


def has_networks(tree: Mapping[str, Any]) -> bool:
    """Whether a plain tree describes small networks; without a known algorithm it describes language models."""
    algorithm = tree.get("algorithm")
    kind = algorithm.get("type") if isinstance(algorithm, Mapping) else None
    return isinstance(kind, str) and kind in MARL_ALGORITHM_CONFIGS


def agents_of(tree: Mapping[str, Any]) -> str:
    """The kind of agents of a plain tree: a key of CONFIGS."""
    return "networks" if has_networks(tree) else "language_models"


def config_class(tree: Mapping[str, Any]) -> type[RunConfig] | type[MarlConfig]:
    """The config class for a tree."""
    return MarlConfig if has_networks(tree) else RunConfig

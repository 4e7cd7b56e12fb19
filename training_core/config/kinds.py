"""The config classes of each kind of agents, and the kind of a plain tree. The algorithm determines it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.config.base import EnvironmentSection
from training_core.config.experiment import AgentKind
from training_core.config.health import Health, NetworkHealth, RunHealth
from training_core.config.marl import MarlConfig, MarlPolicy, MarlRole
from training_core.config.models import Policy
from training_core.config.run import ENVIRONMENT_CONFIGS, RunConfig
from training_core.config.team import Role
from training_core.marl.algorithms.registry import MARL_ALGORITHM_CONFIGS
from training_core.marl.environments.registry import MARL_ENVIRONMENT_CONFIGS

AnyConfig = RunConfig | MarlConfig


@dataclass(frozen=True)
class ConfigKind:
    """The config classes of one kind of agents."""

    label: str
    config: type[RunConfig] | type[MarlConfig]
    role: type[Role | MarlRole]
    policy: type[Policy | MarlPolicy]
    health: type[RunHealth]
    environments: Mapping[str, type[EnvironmentSection]]
    """By type."""
    takes_turns: bool
    """Whether the team has an order of turns; otherwise all roles act in every step."""


CONFIG_KINDS: dict[AgentKind, ConfigKind] = {
    AgentKind.LANGUAGE_MODELS: ConfigKind(
        "Language models", RunConfig, Role, Policy, Health, ENVIRONMENT_CONFIGS, takes_turns=True
    ),
    AgentKind.NETWORKS: ConfigKind(
        "Small networks",
        MarlConfig,
        MarlRole,
        MarlPolicy,
        NetworkHealth,
        MARL_ENVIRONMENT_CONFIGS,
        takes_turns=False,
    ),
}


def agents_of(tree: Mapping[str, Any]) -> AgentKind:
    """The kind of agents of a plain tree. With an unknown algorithm the environment decides, so that the
    algorithm is the only error; without any, the tree describes language models.
    """
    algorithm, environment = _type_of(tree, "algorithm"), _type_of(tree, "environment")
    if algorithm in MARL_ALGORITHM_CONFIGS:
        return AgentKind.NETWORKS
    unknown = algorithm is not None and algorithm not in ALGORITHM_CONFIGS
    return (
        AgentKind.NETWORKS
        if unknown and environment in MARL_ENVIRONMENT_CONFIGS
        else AgentKind.LANGUAGE_MODELS
    )


def config_kind(tree: Mapping[str, Any]) -> ConfigKind:
    """The config classes for a plain tree."""
    return CONFIG_KINDS[agents_of(tree)]


def _type_of(tree: Mapping[str, Any], part: str) -> str | None:
    """The `type` of a part; None if it is missing or not a string."""
    section = tree.get(part)
    kind = section.get("type") if isinstance(section, Mapping) else None
    return kind if isinstance(kind, str) else None

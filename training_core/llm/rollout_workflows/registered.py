"""Agents and environments by name, as in AReaL's older experiment files (realhf).

Such a file registers classes under names, and two properties of its config select a name with arguments. Here
`workflow.path` names the config class, and `workflow.args` are its fields.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from training_core.errors import ConfigError

AGENTS: dict[str, Callable[..., Any]] = {}
"""Filled by custom modules on import."""
ENVIRONMENTS: dict[str, Callable[..., Any]] = {}


def register_agent(name: str, agent: Callable[..., Any]) -> None:
    """Make a class available to AgentAbstraction. Raises ConfigError if another class has the name."""
    _register(AGENTS, name, agent)


def register_environment(name: str, environment: Callable[..., Any]) -> None:
    """Make a class available to EnvServiceAbstraction. Raises ConfigError if another class has the name."""
    _register(ENVIRONMENTS, name, environment)


@dataclass
class AgentAbstraction:
    """A registered agent and its arguments."""

    type_: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class EnvServiceAbstraction:
    """A registered environment and its arguments; "null" is none."""

    type_: str = "null"
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class DatasetFile:
    """The data of an experiment's config."""

    path: str = ""


@dataclass
class AsyncRLExperimentConfig:
    """The base of an experiment's config. `dataset` is filled with the run's `environment.path`."""

    dataset: DatasetFile = field(default_factory=DatasetFile)

    @property
    def agent(self) -> AgentAbstraction:
        """The agent. Raises ConfigError if the class does not define it."""
        raise ConfigError(
            {"workflow.path": f"{type(self).__name__} needs a property agent: an AgentAbstraction"}
        )

    @property
    def env(self) -> EnvServiceAbstraction:
        """The environment."""
        return EnvServiceAbstraction()


class PPOMATHConfig:
    """The second base class of these configs. Its fields in AReaL are part of the run config here."""


def registered_agent(abstraction: AgentAbstraction) -> Callable[..., Any]:
    """The class of an agent. Raises ConfigError, which lists the registered ones."""
    return _lookup(AGENTS, abstraction.type_, "agent", "register_agent")


def registered_environment(abstraction: EnvServiceAbstraction) -> Callable[..., Any] | None:
    """The class of an environment, None for "null". Raises ConfigError, which lists the registered ones."""
    if abstraction.type_ == "null":
        return None
    return _lookup(ENVIRONMENTS, abstraction.type_, "environment", "register_environment")


def _register(registry: dict[str, Callable[..., Any]], name: str, constructor: Callable[..., Any]) -> None:
    existing = registry.setdefault(name, constructor)
    if (existing.__module__, existing.__qualname__) != (constructor.__module__, constructor.__qualname__):
        raise ConfigError(
            {"workflow.path": f"{name!r} is already registered for {existing.__qualname__}; use another name"}
        )
    registry[name] = constructor


def _lookup(registry: dict[str, Callable[..., Any]], name: str, kind: str, how: str) -> Callable[..., Any]:
    if name not in registry:
        existing = ", ".join(sorted(registry)) or "none"
        text = f"no {kind} is registered as {name!r} (registered: {existing}); call {how} in a module that workflow.path imports"
        raise ConfigError({"workflow.path": text})
    return registry[name]

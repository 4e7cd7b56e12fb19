"""What environments of other packages share: their import, failures, roles of agents, and reported successes."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from training_core.errors import ConfigError, EnvironmentFailure, import_cause

REMEDY = (
    "pip install 'troupe[marl]' on the machine that runs the workers (`make run` does), then launch again"
)


def import_optional(module: str, kind: str, remedy: str = REMEDY) -> Any:
    """A module that environments of this `type` need. Raises ConfigError with the install command, `remedy`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            {"environment.type": f"{kind} needs {module}: {import_cause(error)}"}, remedy=remedy
        ) from error


@contextmanager
def joint_step_errors(name: str) -> Iterator[None]:
    """Context for a call that steps them all. `name` is their display name. Converts any exception to EnvironmentFailure."""
    try:
        yield
    except Exception as error:
        raise EnvironmentFailure(
            f"{name}: {type(error).__name__}: {error}. These environments are stepped together, so none can continue:",
            remedy="fix it, and test it separately before you launch again",
        ) from error


def assign_roles(
    agents: Sequence[str], members: Mapping[str, Sequence[str]], field: str
) -> dict[str, tuple[str, ...]]:
    """Agents of each role, in the order of `agents`. Without `members`, one role `agents` has all of them.

    The longest matching prefix determines the role. Raises ConfigError for the config's `field` if an agent has no
    role or a role has no agent.
    """
    if not members:
        return {"agents": tuple(agents)}
    agents_by_role: dict[str, list[str]] = {role: [] for role in members}
    starts = sorted(
        ((start, role) for role, own in members.items() for start in own), key=lambda pair: -len(pair[0])
    )
    for agent in agents:
        role = next((role for start, role in starts if agent.startswith(start)), None)
        if role is None:
            raise ConfigError({field: f"the agent {agent!r} has no role; the agents are {', '.join(agents)}"})
        agents_by_role[role].append(agent)
    if empty := [role for role, own in agents_by_role.items() if not own]:
        raise ConfigError({field: f"{empty[0]} has no agent; the agents are {', '.join(agents)}"})
    return {role: tuple(own) for role, own in agents_by_role.items()}


SUCCESS = ("success", "is_success")
"""Keys that environments use; the second is used by gymnasium-robotics and Stable-Baselines3."""


def reported_success(info: Any) -> bool | None:
    """The success in an info; None if it has none."""
    if isinstance(info, Mapping):
        for key in SUCCESS:
            if info.get(key) is not None:
                return bool(info[key])
    return None

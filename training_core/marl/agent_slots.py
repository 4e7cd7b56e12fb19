"""The agents of a policy: the agents of its roles, concatenated.

Letters: B environments, N agents of the policy, D numbers of an observation, A choices.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from training_core.config.marl import MarlConfig
from training_core.errors import ConfigError
from training_core.marl.environments.base import (
    ActionKind,
    Actions,
    Continuous,
    Flags,
    Pictures,
    Reals,
    RoleSpec,
    Spec,
    View,
)


@dataclass(frozen=True)
class AgentSlots:
    """The agents of one policy."""

    policy: str
    roles: tuple[str, ...]
    slices: tuple[slice, ...]
    """The slice of each role's agents among the N."""
    agents: tuple[str, ...]
    """Names of the N agents."""
    trained: tuple[bool, ...]
    """By role: whether its steps are trained on."""
    observation_dim: int
    actions: ActionKind
    widths: tuple[int, ...] = ()
    """Number of components of each agent's continuous action; empty if all have all."""
    pictures: Pictures | None = None
    """The observation, if it is a picture."""

    @property
    def count(self) -> int:
        """N."""
        return len(self.agents)

    def observations(self, view: View) -> Reals:
        """(B, N, D)."""
        return _concatenate([view.observations[role] for role in self.roles])

    def masks(self, view: View) -> Flags | None:
        """(B, N, A), True for allowed choices; None if all are always allowed."""
        if isinstance(self.actions, Continuous) or not any(role in view.masks for role in self.roles):
            return None
        width = sum(self.actions.counts)
        shapes = {role: (*view.observations[role].shape[:2], width) for role in self.roles}
        return np.concatenate(
            [view.masks[role] if role in view.masks else np.ones(shapes[role], bool) for role in self.roles],
            1,
        )

    def flags(self, flags: Mapping[str, Flags], default: bool, environments: int) -> Flags | None:
        """(B, N) from flags by role, with `default` for missing roles. None if all roles are missing."""
        if not any(role in flags for role in self.roles):
            return None
        parts = [
            flags.get(role, np.full((environments, agents.stop - agents.start), default))
            for role, agents in zip(self.roles, self.slices, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def rewards(self, rewards: Mapping[str, Reals]) -> Reals:
        """(B, N)."""
        return _concatenate([rewards[role] for role in self.roles])

    def by_role(self, actions: Actions) -> dict[str, Actions]:
        """(B, N) or (B, N, A) by role."""
        return {role: actions[:, agents] for role, agents in zip(self.roles, self.slices, strict=True)}


def slots_by_policy(config: MarlConfig, spec: Spec) -> dict[str, AgentSlots]:
    """The slots by policy. Raises ConfigError if the environment's roles differ from the config's, or a policy's roles from each other."""
    if set(config.team.roles) != set(spec.roles):
        text = f"the environment has the roles {', '.join(spec.roles)}"
        raise ConfigError({"team.roles": text}, remedy="name exactly these roles")
    return {policy: _policy_slots(policy, config, spec) for policy in config.used_policies}


def _policy_slots(policy: str, config: MarlConfig, spec: Spec) -> AgentSlots:
    roles = tuple(name for name, role in config.team.roles.items() if role.policy == policy)
    first = spec.roles[roles[0]]
    for name in roles[1:]:
        other = spec.roles[name]
        seen = (other.observation_dim, other.pictures) == (first.observation_dim, first.pictures)
        if not seen or other.actions != first.actions:
            text = f"{name} and {roles[0]} have different observations or actions"
            raise ConfigError({f"team.roles.{name}.policy": text}, remedy="give each a separate policy")
    ends = np.cumsum([len(spec.roles[name].agents) for name in roles]).tolist()
    return AgentSlots(
        policy,
        roles,
        tuple(slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)),
        tuple(agent for name in roles for agent in spec.roles[name].agents),
        tuple(config.team.roles[name].trained for name in roles),
        first.observation_dim,
        first.actions,
        _widths([spec.roles[name] for name in roles]),
        first.pictures,
    )


def _widths(roles: list[RoleSpec]) -> tuple[int, ...]:
    """Widths of every agent's continuous action; empty if none is padded."""
    if not isinstance(roles[0].actions, Continuous) or not any(role.widths for role in roles):
        return ()
    full = len(roles[0].actions.low)
    return tuple(width for role in roles for width in role.widths or (full,) * len(role.agents))


def _concatenate(parts: list[Reals]) -> Reals:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

"""Assignment of agents to roles by name prefix."""

from collections.abc import Mapping, Sequence

from training_core.errors import ConfigError


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

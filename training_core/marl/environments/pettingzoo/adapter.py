"""A PettingZoo parallel environment as one of Troupe's single environments.

Agents are in the order of `possible_agents`. Within a role, observations are padded with zeros to the widest, and
choices to the largest count, with an agent's missing choices masked. Rewards remain per agent. The episode ends when
all agents have ended; without `strict_agents`, views contain which agents are active, and transitions which
terminated.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from training_core.errors import ConfigError, EnvironmentFailure
from training_core.marl.environments.base import (
    Actions,
    Continuous,
    Flags,
    Reals,
    RoleSpec,
    Spec,
    Success,
)
from training_core.marl.environments.members import assign_roles
from training_core.marl.environments.pettingzoo.boards import world_board
from training_core.marl.environments.pettingzoo.spaces import (
    MASK,
    action_widths,
    allowed,
    first_choices,
    flatten_observation,
    observation_width,
    shared_actions,
    to_space,
)
from training_core.marl.environments.sequential import Outcome, SingleView
from training_core.marl.environments.success import reported_success


@dataclass(frozen=True)
class AdapterSettings:
    """Settings of the adapter."""

    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Agents of each role by name prefix; empty for one role."""
    strict_agents: bool = True
    """Fail if agents appear or disappear during an episode; otherwise absent agents observe zeros, get no reward and have one choice."""
    action_masks: bool = True
    """Use `action_mask` from infos or observations."""
    max_steps: int = 0
    """Steps of the longest episode; 0 if unknown."""


class PettingZooEnvironment:
    """One PettingZoo parallel environment."""

    def __init__(self, environment: Any, settings: AdapterSettings) -> None:
        self._env, self._settings = environment, settings
        if not hasattr(environment, "possible_agents"):
            raise ConfigError(
                {
                    "environment": "it has no possible_agents, which PettingZoo's parallel environments need; define "
                    "this attribute"
                }
            )
        roles = assign_roles(list(environment.possible_agents), settings.members, "environment.members")
        self._agents = {
            agent: (role, index) for role, own in roles.items() for index, agent in enumerate(own)
        }
        self._observed = {agent: environment.observation_space(agent) for agent in self._agents}
        self._acting = {agent: environment.action_space(agent) for agent in self._agents}
        self.spec = Spec({role: self._role(own) for role, own in roles.items()}, max_steps=settings.max_steps)
        possible = {role: self._possible(own) for role, own in self.spec.roles.items()}
        self._possible_choices = {role: choices for role, choices in possible.items() if choices is not None}
        self._successes: dict[str, bool] = {}
        """Last reported success in this episode's infos, by agent."""

    def reset(self, seed: int) -> SingleView:
        observations, infos = self._env.reset(seed=seed)
        if self._settings.strict_agents:
            self._check_agents("at the start of an episode", set(self._agents), set(self._env.agents))
        self._successes = {}
        return self._view(observations, infos, set(self._env.agents))

    def step(self, actions: Mapping[str, Actions]) -> Outcome:
        before = list(self._env.agents)
        chosen = {
            agent: to_space(self._acting[agent], actions[self._agents[agent][0]][self._agents[agent][1]])
            for agent in before
        }
        observations, rewards, terminations, truncations, infos = self._env.step(chosen)
        ended = {agent for agent in before if terminations.get(agent) or truncations.get(agent)}
        after = set(self._env.agents) - ended
        if self._settings.strict_agents and after:
            self._check_agents("during an episode", set(before), after)
        over = not after
        terminated = over and all(terminations.get(agent, False) for agent in ended)
        self._successes |= {
            agent: success for agent in before if (success := reported_success(infos.get(agent))) is not None
        }
        return Outcome(
            self._view(observations, infos, after),
            self._role_rewards(rewards),
            terminated,
            over and not terminated,
            self._role_flags({agent for agent in ended if terminations.get(agent)}),
            Success(agents=dict(self._successes)) if over and self._successes else None,
        )

    def board(self) -> dict[str, Any] | None:
        """The environment's board(), or its multi-particle world; None if it has neither."""
        inner = self._env.unwrapped
        if callable(own := getattr(inner, "board", None)):
            board: dict[str, Any] | None = own()
            return board
        return world_board(inner.world) if hasattr(inner, "world") else None

    def close(self) -> None:
        self._env.close()

    def _role(self, agents: tuple[str, ...]) -> RoleSpec:
        width = max(observation_width(self._observed[agent], "environment.path") for agent in agents)
        acting = [self._acting[agent] for agent in agents]
        return RoleSpec(agents, width, shared_actions(acting, "environment.path"), action_widths(acting))

    def _possible(self, role: RoleSpec) -> Flags | None:
        """(n, A): the choices that agents have; None for continuous actions."""
        if isinstance(role.actions, Continuous):
            return None
        return np.stack([allowed(self._acting[agent], role.actions.counts) for agent in role.agents])

    def _view(
        self, observations: Mapping[str, Any], infos: Mapping[str, Any], active: Collection[str]
    ) -> SingleView:
        """`active`: agents that are active in the next step."""
        seen = {
            role: np.zeros((len(own.agents), own.observation_dim), dtype=np.float32)
            for role, own in self.spec.roles.items()
        }
        masks = {role: own.copy() for role, own in self._possible_choices.items() if self._masked(own)}
        for agent, (role, index) in self._agents.items():
            kind = self.spec.roles[role].actions
            if agent in observations:
                numbers = flatten_observation(self._observed[agent], observations[agent])
                seen[role][index, : len(numbers)] = numbers
                uses_masks = self._settings.action_masks
                mask = _mask(observations[agent], infos.get(agent)) if uses_masks else None
                if mask is not None and not isinstance(kind, Continuous):
                    masks[role][index] = allowed(self._acting[agent], kind.counts, mask)
            if role in masks and agent not in active and not isinstance(kind, Continuous):
                masks[role][index] = first_choices(kind.counts)
        return SingleView(seen, masks, alive={} if self._settings.strict_agents else self._role_flags(active))

    def _masked(self, possible: Flags) -> bool:
        """Whether a role returns masks: in every view, or in none. An environment may return its first mask in any step."""
        return self._settings.action_masks or not self._settings.strict_agents or not possible.all()

    def _role_flags(self, agents: Collection[str]) -> dict[str, Flags]:
        """(n,) by role: which agents are in `agents`."""
        return {
            role: np.array([agent in agents for agent in own.agents]) for role, own in self.spec.roles.items()
        }

    def _role_rewards(self, rewards: Mapping[str, float]) -> dict[str, Reals]:
        role_rewards = {
            role: np.zeros(len(own.agents), dtype=np.float32) for role, own in self.spec.roles.items()
        }
        for agent, reward in rewards.items():
            if agent in self._agents:
                role, index = self._agents[agent]
                role_rewards[role][index] = reward
        return role_rewards

    def _check_agents(self, when: str, expected: set[str], present: set[str]) -> None:
        if expected == present:
            return
        missing, added = ", ".join(sorted(expected - present)), ", ".join(sorted(present - expected))
        changes = "; ".join(
            text for text in (missing and f"{missing} left", added and f"{added} came") if text
        )
        raise EnvironmentFailure(
            f"agents changed {when}: {changes}. Set environment.strict_agents = false if this is intended"
        )


def _mask(observation: Any, info: Any) -> Any:
    """The mask in an agent's info, otherwise in its observation."""
    for source in (info, observation):
        if isinstance(source, Mapping) and source.get(MASK) is not None:
            return source[MASK]
    return None

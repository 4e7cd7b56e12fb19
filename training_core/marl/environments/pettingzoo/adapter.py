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
from training_core.marl.environments.members import by_role
from training_core.marl.environments.pettingzoo.boards import world_board
from training_core.marl.environments.pettingzoo.spaces import (
    MASK,
    actions_of,
    allowed,
    first_choices,
    flat,
    given_to,
    width_of,
    widths_of,
)
from training_core.marl.environments.singles import Outcome, Sight
from training_core.marl.environments.success import success_in


@dataclass(frozen=True)
class Manner:
    """Settings of the adapter."""

    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Agents of each role by name prefix; empty for one role."""
    strict_agents: bool = True
    """Fail if agents appear or disappear during an episode; otherwise absent agents observe zeros, get no reward and have one choice."""
    action_masks: bool = True
    """Use `action_mask` from infos or observations."""
    max_steps: int = 0
    """Steps of the longest episode; 0 if unknown."""


class ParallelSingle:
    """One PettingZoo parallel environment."""

    def __init__(self, environment: Any, manner: Manner) -> None:
        self._env, self._manner = environment, manner
        if not hasattr(environment, "possible_agents"):
            raise ConfigError(
                {
                    "environment": "it has no possible_agents, which PettingZoo's parallel environments need; define "
                    "this attribute"
                }
            )
        roles = by_role(list(environment.possible_agents), manner.members, "environment.members")
        self._agents = {
            agent: (role, place) for role, own in roles.items() for place, agent in enumerate(own)
        }
        self._observed = {agent: environment.observation_space(agent) for agent in self._agents}
        self._acting = {agent: environment.action_space(agent) for agent in self._agents}
        self.spec = Spec({role: self._role(own) for role, own in roles.items()}, max_steps=manner.max_steps)
        possible = {role: self._possible(own) for role, own in self.spec.roles.items()}
        self._possible_choices = {role: choices for role, choices in possible.items() if choices is not None}
        self._successes: dict[str, bool] = {}
        """Last reported success in this episode's infos, by agent."""

    def reset(self, seed: int) -> Sight:
        observations, infos = self._env.reset(seed=seed)
        if self._manner.strict_agents:
            self._same_agents("at the start of an episode", set(self._agents), set(self._env.agents))
        self._successes = {}
        return self._sight(observations, infos, set(self._env.agents))

    def step(self, actions: Mapping[str, Actions]) -> Outcome:
        before = list(self._env.agents)
        chosen = {
            agent: given_to(self._acting[agent], actions[self._agents[agent][0]][self._agents[agent][1]])
            for agent in before
        }
        observations, rewards, terminations, truncations, infos = self._env.step(chosen)
        ended = {agent for agent in before if terminations.get(agent) or truncations.get(agent)}
        after = set(self._env.agents) - ended
        if self._manner.strict_agents and after:
            self._same_agents("during an episode", set(before), after)
        over = not after
        terminated = over and all(terminations.get(agent, False) for agent in ended)
        self._successes |= {
            agent: told for agent in before if (told := success_in(infos.get(agent))) is not None
        }
        return Outcome(
            self._sight(observations, infos, after),
            self._earned(rewards),
            terminated,
            over and not terminated,
            self._by_role({agent for agent in ended if terminations.get(agent)}),
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
        width = max(width_of(self._observed[agent], "environment.path") for agent in agents)
        acting = [self._acting[agent] for agent in agents]
        return RoleSpec(agents, width, actions_of(acting, "environment.path"), widths_of(acting))

    def _possible(self, role: RoleSpec) -> Flags | None:
        """(n, A): the choices that agents have; None for continuous actions."""
        if isinstance(role.actions, Continuous):
            return None
        return np.stack([allowed(self._acting[agent], role.actions.counts) for agent in role.agents])

    def _sight(
        self, observations: Mapping[str, Any], infos: Mapping[str, Any], there: Collection[str]
    ) -> Sight:
        """`there`: agents that are active in the next step."""
        seen = {
            role: np.zeros((len(own.agents), own.observation_dim), dtype=np.float32)
            for role, own in self.spec.roles.items()
        }
        masks = {role: own.copy() for role, own in self._possible_choices.items() if self._masked(own)}
        for agent, (role, place) in self._agents.items():
            kind = self.spec.roles[role].actions
            if agent in observations:
                numbers = flat(self._observed[agent], observations[agent])
                seen[role][place, : len(numbers)] = numbers
                given = self._manner.action_masks
                mask = _mask(observations[agent], infos.get(agent)) if given else None
                if mask is not None and not isinstance(kind, Continuous):
                    masks[role][place] = allowed(self._acting[agent], kind.counts, mask)
            if role in masks and agent not in there and not isinstance(kind, Continuous):
                masks[role][place] = first_choices(kind.counts)
        return Sight(seen, masks, alive={} if self._manner.strict_agents else self._by_role(there))

    def _masked(self, possible: Flags) -> bool:
        """Whether a role returns masks: in every view, or in none. An environment may return its first mask in any step."""
        return self._manner.action_masks or not self._manner.strict_agents or not possible.all()

    def _by_role(self, agents: Collection[str]) -> dict[str, Flags]:
        """(n,) by role: which agents are in `agents`."""
        return {
            role: np.array([agent in agents for agent in own.agents]) for role, own in self.spec.roles.items()
        }

    def _earned(self, rewards: Mapping[str, float]) -> dict[str, Reals]:
        earned = {role: np.zeros(len(own.agents), dtype=np.float32) for role, own in self.spec.roles.items()}
        for agent, reward in rewards.items():
            if agent in self._agents:
                role, place = self._agents[agent]
                earned[role][place] = reward
        return earned

    def _same_agents(self, when: str, expected: set[str], found: set[str]) -> None:
        if expected == found:
            return
        gone, come = ", ".join(sorted(expected - found)), ", ".join(sorted(found - expected))
        said = "; ".join(text for text in (gone and f"{gone} left", come and f"{come} came") if text)
        raise EnvironmentFailure(
            f"agents changed {when}: {said}. Set environment.strict_agents = false if this is intended"
        )


def _mask(observation: Any, info: Any) -> Any:
    """The mask in an agent's info, otherwise in its observation."""
    for place in (info, observation):
        if isinstance(place, Mapping) and place.get(MASK) is not None:
            return place[MASK]
    return None

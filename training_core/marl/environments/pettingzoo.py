"""A PettingZoo environment as one of Troupe's single environments; a turn-based one (AEC) by PettingZoo's own wrapper.

Agents are in the order of `possible_agents`. Within a role, observations are padded with zeros to the widest, and
choices to the largest count, with an agent's missing choices masked. Rewards remain per agent. An agent leaves when it
has terminated or was truncated; the episode ends when all have. Views contain which agents are active, and transitions
which terminated.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from training_core.errors import ConfigError, EnvironmentFailure
from training_core.importing import load_object
from training_core.marl.environments.base import (
    Actions,
    Continuous,
    Flags,
    Reals,
    RoleSpec,
    Spec,
    Success,
    plane,
)
from training_core.marl.environments.config import PettingZoo, SuperSuit, Wrapped
from training_core.marl.environments.packages import assign_roles, import_optional, reported_success
from training_core.marl.environments.sequential import Outcome, SequentialEnvironments, SingleView
from training_core.marl.environments.spaces import (
    MASK,
    action_widths,
    allowed,
    first_choices,
    flatten_observation,
    observation_width,
    shared_actions,
    shared_pictures,
    to_space,
)

STEP_SECONDS = 0.1
"""mpe2's time step: velocities are shown per step."""


def world_board(world: Any) -> dict[str, Any]:
    """A plane with agents, landmarks and obstacles (landmarks that bodies bounce off)."""
    agents = [
        _entity(agent, "agent") | {"velocity": (np.asarray(agent.state.p_vel) * STEP_SECONDS).tolist()}
        for agent in world.agents
    ]
    landmarks = [_entity(mark, "obstacle" if mark.collide else "landmark") for mark in world.landmarks]
    return plane(agents + landmarks)


def _entity(body: Any, kind: str) -> dict[str, Any]:
    x, y = (float(value) for value in body.state.p_pos)
    return {"name": body.name, "kind": kind, "x": x, "y": y, "radius": float(body.size)}


STEP = ("observations", "rewards", "terminations", "truncations", "infos")


@dataclass(frozen=True)
class AdapterSettings:
    """Settings of the adapter."""

    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Agents of each role by name prefix; empty for one role."""
    strict_agents: bool = True
    """Fail if an agent appears during an episode, or leaves without having ended. Absent agents observe zeros, get no
    reward and have one choice.
    """
    action_masks: bool = True
    """Use `action_mask` from infos or observations."""
    max_steps: int = 0
    """Steps of the longest episode; 0 if unknown."""


class PettingZooEnvironment:
    """One PettingZoo parallel environment."""

    def __init__(self, environment: Any, settings: AdapterSettings) -> None:
        self._turns = environment if hasattr(environment, "agent_iter") else None
        if self._turns:
            from pettingzoo.utils.conversions import turn_based_aec_to_parallel

            environment = turn_based_aec_to_parallel(environment)
        self._env, self._settings = environment, settings
        if not hasattr(environment, "possible_agents"):
            text = "it has no possible_agents, which PettingZoo's parallel environments need"
            raise ConfigError({"environment": text}, remedy="define this attribute")
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
        observations, infos = _parts(self._env.reset(seed=seed), "reset", ("observations", "infos"))
        present = set(self._env.agents)
        if self._settings.strict_agents:
            _check_agents(
                "at the start of an episode", set(self._agents) - present, present - set(self._agents)
            )
        self._successes = {}
        return self._view(observations, infos or {}, present, required=present)

    def step(self, actions: Mapping[str, Actions]) -> Outcome:
        before = list(self._env.agents)
        chosen = {
            agent: to_space(
                self._acting[agent],
                actions[self._agents[agent][0]][self._agents[agent][1]],
                self.spec.roles[self._agents[agent][0]].actions,
            )
            for agent in before
        }
        result = _parts(self._env.step(chosen), "step", STEP)
        observations, rewards, infos = result[0], result[1], result[4] or {}
        terminations, truncations = (
            _by_agent(flags, before, name) for flags, name in zip(result[2:4], STEP[2:4], strict=True)
        )
        ended = {agent for agent in before if terminations.get(agent) or truncations.get(agent)}
        after = set(self._env.agents) - ended
        if self._settings.strict_agents:
            _check_agents("during an episode", set(before) - after - ended, after - set(before))
        over = not after
        terminated = over and all(terminations.get(agent, False) for agent in ended)
        self._successes |= {
            agent: success for agent in before if (success := reported_success(infos.get(agent))) is not None
        }
        return Outcome(
            self._view(
                observations, infos, after, required=after | {a for a in ended if not terminations.get(a)}
            ),
            self._role_rewards(_by_agent(rewards, before, "rewards"), before),
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
        pictures = shared_pictures([self._observed[agent] for agent in agents])
        actions = shared_actions(acting, "environment.path")
        return RoleSpec(agents, width, actions, action_widths(acting), pictures)

    def _possible(self, role: RoleSpec) -> Flags | None:
        """(n, A): the choices that agents have; None for continuous actions."""
        if isinstance(role.actions, Continuous):
            return None
        return np.stack([allowed(self._acting[agent], role.actions.counts) for agent in role.agents])

    def _view(
        self,
        observations: Mapping[str, Any],
        infos: Mapping[str, Any],
        active: Collection[str],
        required: Collection[str],
    ) -> SingleView:
        """`active`: agents that are active in the next step; `required`: those that must have an observation."""
        seen = {
            role: np.zeros((len(own.agents), own.observation_dim), dtype=np.float32)
            for role, own in self.spec.roles.items()
        }
        masks = {role: own.copy() for role, own in self._possible_choices.items()}
        choosing = active if self._turns is None else {self._turns.agent_selection}
        for agent, (role, index) in self._agents.items():
            kind = self.spec.roles[role].actions
            if agent in observations:
                numbers = self._flat(agent, observations[agent])
                seen[role][index, : len(numbers)] = numbers
                uses_masks = self._settings.action_masks
                mask = _mask(observations[agent], infos.get(agent)) if uses_masks else None
                if mask is not None and not isinstance(kind, Continuous):
                    masks[role][index] = allowed(self._acting[agent], kind.counts, mask)
            elif agent in required:
                raise EnvironmentFailure(
                    f"{agent} has no observation",
                    remedy="reset and step must return one for each agent that is active",
                )
            if role in masks and agent not in choosing and not isinstance(kind, Continuous):
                masks[role][index] = first_choices(kind.counts)
        return SingleView(seen, masks, alive=self._role_flags(active))

    def _flat(self, agent: str, observation: Any) -> Reals:
        try:
            return flatten_observation(self._observed[agent], observation)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise EnvironmentFailure(f"the observation of {agent} does not fit its space: {error}") from error

    def _role_flags(self, agents: Collection[str]) -> dict[str, Flags]:
        """(n,) by role: which agents are in `agents`."""
        return {
            role: np.array([agent in agents for agent in own.agents]) for role, own in self.spec.roles.items()
        }

    def _role_rewards(self, rewards: Mapping[str, Any], acted: Collection[str]) -> dict[str, Reals]:
        role_rewards = {
            role: np.zeros(len(own.agents), dtype=np.float32) for role, own in self.spec.roles.items()
        }
        for agent in self._agents:
            if agent in rewards or agent in acted:
                role, index = self._agents[agent]
                role_rewards[role][index] = _one_number(rewards.get(agent), agent)
        return role_rewards


def _parts(result: Any, method: str, names: tuple[str, ...]) -> tuple[Any, ...]:
    """What reset or step returned. Raises EnvironmentFailure if it is not the tuple of PettingZoo's interface."""
    if not isinstance(result, tuple) or len(result) != len(names):
        raise EnvironmentFailure(
            f"{method} must return a tuple ({', '.join(names)}), each with a value by agent"
        )
    return result


def _by_agent(values: Any, agents: Collection[str], name: str) -> Mapping[str, Any]:
    """Values by agent; a single one is that of all agents. Raises EnvironmentFailure."""
    if isinstance(values, Mapping):
        return values
    if values is None or np.size(values) != 1:
        raise EnvironmentFailure(f"{name} must be a dict by agent, not {type(values).__name__}")
    return dict.fromkeys(agents, values)


def _one_number(reward: Any, agent: str) -> float:
    if reward is None or np.size(reward) != 1:
        raise EnvironmentFailure(
            f"{agent} has the reward {reward!r}",
            remedy="step must return one number for each agent that acted",
        )
    return float(np.asarray(reward).reshape(()))


def _check_agents(when: str, left: Collection[str], came: Collection[str]) -> None:
    """Raise EnvironmentFailure if agents left without having ended, or came."""
    changes = [
        f"{', '.join(sorted(names))} {verb}" for names, verb in ((left, "left"), (came, "came")) if names
    ]
    if changes:
        raise EnvironmentFailure(
            f"agents changed {when}: {'; '.join(changes)}.",
            remedy="Return their termination, or set environment.strict_agents = false if this is intended",
        )


def _mask(observation: Any, info: Any) -> Any:
    """The mask in an agent's info, otherwise in its observation."""
    for source in (info, observation):
        if isinstance(source, Mapping) and source.get(MASK) is not None:
            return source[MASK]
    return None


SUPERSUIT_REMEDY = "pip install --no-deps supersuit on the machine that runs the workers (`make run` does), then launch again"
"""Without tinyscaler, which has no wheels for Python 3.13 and which these wrappers do not use."""


def wrap(environment: Any, section: SuperSuit) -> Any:
    """Normalise, pad observations, pad actions, stack frames: in this order. Raises ConfigError if one cannot be applied."""
    if section == SuperSuit():
        return environment
    suit = import_optional("supersuit", "environment.supersuit", SUPERSUIT_REMEDY)
    wrappers = [
        ("normalise_observations", section.normalise_observations, suit.normalize_obs_v0),
        ("pad_observations", section.pad_observations, suit.pad_observations_v0),
        ("pad_action_space", section.pad_action_space, suit.pad_action_space_v0),
        ("frame_stack", section.frame_stack > 1, lambda env: suit.frame_stack_v1(env, section.frame_stack)),
    ]
    for name, wanted, wrapper in wrappers:
        if wanted:
            try:
                environment = wrapper(environment)
            except (AssertionError, TypeError, ValueError) as error:
                raise ConfigError({f"environment.supersuit.{name}": f"does not fit: {error}"}) from error
    return environment


def adapt(
    make: Callable[[], Any],
    section: Wrapped,
    count: int,
    name: str,
    *,
    members: Mapping[str, tuple[str, ...]],
    max_steps: int = 0,
) -> SequentialEnvironments:
    """`count` parallel environments that `make` constructs, wrapped as configured."""
    settings = AdapterSettings(members, section.strict_agents, section.action_masks, max_steps)
    return SequentialEnvironments(
        lambda: PettingZooEnvironment(wrap(make(), section.supersuit), settings), count, name
    )


def make(section: PettingZoo, count: int) -> SequentialEnvironments:
    """Any parallel environment, by import path."""
    parallel_env = load_object(section.path, "environment.path")
    return adapt(lambda: parallel_env(**section.args), section, count, section.path, members=section.members)

"""Plays native environments and mpe2's own from the same states with the same actions, side by side."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from training_core.marl.environments.base import Choices, Continuous
from training_core.marl.environments.config import (
    NativeMpe,
    SimpleAdversary,
    SimplePush,
    SimpleReference,
    SimpleSpread,
    SimpleTag,
)
from training_core.marl.environments.mpe.world import MpeEnvironment
from training_core.marl.environments.registry import make_environments

FAR = 10**9


def arguments(section: NativeMpe) -> dict[str, Any]:
    """mpe2's keyword arguments."""
    common = {"max_cycles": FAR, "continuous_actions": section.continuous_actions}
    match section:
        case SimpleSpread():
            return common | {"N": section.num_agents, "local_ratio": section.local_ratio}
        case SimpleReference():
            return common | {"local_ratio": section.local_ratio}
        case SimpleAdversary():
            return common | {"N": section.num_agents}
        case SimpleTag():
            return common | {
                "num_good": section.num_good,
                "num_adversaries": section.num_adversaries,
                "num_obstacles": section.num_obstacles,
            }
        case SimplePush():
            return common
    raise AssertionError(section.type)


class Twins:
    """B native environments, and one of mpe2 that takes the place of each in turn."""

    def __init__(self, section: NativeMpe, count: int) -> None:
        made = make_environments(section, count)
        assert isinstance(made, MpeEnvironment)
        self.native = made
        module = import_module(f"mpe2.{section.type.removeprefix('mpe_')}_v3")
        self.mpe2 = module.parallel_env(**arguments(section))
        self.mpe2.reset(seed=0)
        self.names = [name for role in self.native.spec.roles.values() for name in role.agents]
        assert self.names == self.mpe2.possible_agents

    @property
    def mpe2_world(self) -> Any:
        return self.mpe2.aec_env.unwrapped.world

    def copy(self, index: int) -> None:
        """Give mpe2's world the state of one native environment."""
        world, native = self.mpe2_world, self.native.world
        for place, entity in enumerate(world.entities):
            entity.state.p_pos = native.positions[place, :, index].copy()
        for place, agent in enumerate(world.agents):
            agent.state.p_vel = native.velocities[place, :, index].copy()
        goals(self.native, world, index)

    def step(self, actions: Mapping[str, Any]) -> None:
        """All native environments, and from each one's state before and with its actions mpe2's; everything must be equal."""
        worlds = [self._mpe2_step(actions, index) for index in range(self.native.count)]
        transition = self.native.step(actions)
        seen = transition.final or transition.view
        assert (transition.final is not None) == transition.truncated.any()
        for index, (observations, rewards, positions, velocities) in enumerate(worlds):
            mine = of_agents(self.native, seen.observations, index)
            earned = of_agents(self.native, transition.rewards, index)
            for name in self.names:
                equal(mine[name], observations[name])
                equal(earned[name], rewards[name])
            if transition.final is None:  # else the next episode has begun
                equal(self.native.world.positions[:, :, index], positions)
                equal(self.native.world.velocities[:, :, index], velocities)

    def _mpe2_step(self, actions: Mapping[str, Any], index: int) -> tuple[Any, Any, Any, Any]:
        self.copy(index)
        observations, rewards, *_ = self.mpe2.step(of_agents(self.native, actions, index))
        world = self.mpe2_world
        positions = np.array([entity.state.p_pos for entity in world.entities])
        return observations, rewards, positions, np.array([agent.state.p_vel for agent in world.agents])


def equal(mine: Any, theirs: Any) -> None:
    np.testing.assert_allclose(mine, theirs, rtol=0.0, atol=1e-5)


def goals(native: Any, world: Any, index: int) -> None:
    """What mpe2 draws beside places: which landmark is meant, and the colours that say so."""
    drawn = getattr(native, "goals", None)
    if drawn is None:
        return
    if drawn.ndim == 2:  # simple_reference: each agent wants the other one somewhere
        for place, agent in enumerate(world.agents):
            agent.goal_a, agent.goal_b = world.agents[1 - place], world.landmarks[drawn[place, index]]
        return
    for agent in world.agents:
        agent.goal_a = world.landmarks[drawn[index]]
        if not agent.adversary and hasattr(agent.goal_a, "index"):  # simple_push paints the good agent
            agent.color = np.array([0.25, 0.25, 0.25])
            agent.color[drawn[index] + 1] += 0.5


def drawn_actions(native: MpeEnvironment, random: np.random.Generator) -> dict[str, Any]:
    """Random ones for all roles; continuous ones leave their bounds at times."""
    found: dict[str, Any] = {}
    beyond = 0.2 if random.random() < 0.2 else 0.0
    for role, spec in native.spec.roles.items():
        shape = (native.count, len(spec.agents))
        match spec.actions:
            case Choices(count=count):
                found[role] = random.integers(0, count, shape)
            case Continuous(low=low):
                found[role] = random.uniform(-beyond, 1.0 + beyond, (*shape, len(low))).astype(np.float32)
    return found


def of_agents(native: MpeEnvironment, assign_roles: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Arrays by role (B, n, …) -> one environment's, by agent."""
    return {
        name: assign_roles[role][index, place]
        for role, spec in native.spec.roles.items()
        for place, name in enumerate(spec.agents)
    }

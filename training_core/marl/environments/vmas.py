"""Scenarios of the vectorised simulator VMAS (arXiv 2207.03530): B environments together on torch tensors, converted
to arrays.

VMAS draws from one random state shared by all its environments in a process. It is seeded before episodes begin, from
the seed and the number of steps, so the same seed and B give the same episodes; divided into shares, the episodes
differ.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from training_core.errors import ConfigError
from training_core.marl.environments.base import (
    ActionKind,
    Actions,
    Choices,
    Continuous,
    Flags,
    Reals,
    RoleSpec,
    Spec,
    Transition,
    View,
    last_boards,
    plane,
)
from training_core.marl.environments.config import Vmas
from training_core.marl.environments.episodes import Arrays
from training_core.marl.environments.packages import assign_roles, import_optional, joint_step_errors
from training_core.marl.environments.spaces import action_widths, observation_width, scaled, shared_actions
from training_core.seeding import keyed_seed

SMALLEST = 0.03
"""Radius of objects without one in pictures (lines and boxes are drawn as discs of their extent)."""


class VmasEnvironments:
    """A VectorEnvironment over one VMAS environment."""

    def __init__(self, section: Vmas, count: int) -> None:
        self._env = _made(section, count)
        self._name, self._count = f"vmas {section.scenario}", count
        self._seen = [_space(space, section.scenario) for space in self._env.observation_space]
        self._acting = [_space(space, section.scenario) for space in self._env.action_space]
        names = [agent.name for agent in self._env.agents]
        self._place = {name: index for index, name in enumerate(names)}
        roles = assign_roles(names, section.members, "environment.members")
        self._spec = Spec(
            {role: self._role(own) for role, own in roles.items()}, max_steps=section.max_cycles
        )
        self._masks = self._allowed()
        self._pushes = self._translated(section)
        self._key, self._made_steps = (0, 0), 0

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def count(self) -> int:
        return self._count

    @torch.inference_mode()
    def reset(self, seed: int, first: int = 0) -> View:
        self._key, self._made_steps = (seed, first), 0
        with joint_step_errors(f"{self._name}, reset"):
            return self._view(self._env.reset(seed=self._seed()))

    @torch.inference_mode()
    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        with joint_step_errors(f"{self._name}, step"):
            seen, earned, over, cut, _ = self._env.step(self._given(actions))
        self._made_steps += 1
        rewards = {
            role: np.stack([earned[self._place[name]].numpy() for name in own.agents], axis=1).astype(
                np.float32
            )
            for role, own in self._spec.roles.items()
        }
        terminated: Flags = over.numpy().astype(bool)
        truncated: Flags = cut.numpy().astype(bool) & ~terminated
        view, ended = self._view(seen), terminated | truncated
        if not ended.any():
            return Transition(view, rewards, terminated, truncated)
        boards = last_boards(self, watched, ended)
        return Transition(self._begin(ended), rewards, terminated, truncated, view, boards)

    def board(self, index: int) -> dict[str, Any] | None:
        """A plane with agents and landmarks, as discs."""
        agents = [self._entity(agent, index, "agent") for agent in self._env.world.agents]
        marks = [
            self._entity(mark, index, "obstacle" if mark.collide else "landmark")
            for mark in self._env.world.landmarks
        ]
        return plane(agents + marks)

    def episode_state(self) -> Arrays | None:
        """VMAS has no state that can be stored; the config refuses settings that need it."""
        return None

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        return None

    def close(self) -> None:
        """There are no resources to release."""

    def _role(self, agents: tuple[str, ...]) -> RoleSpec:
        places = [self._place[name] for name in agents]
        width = max(observation_width(self._seen[index], "environment.scenario") for index in places)
        acting = [self._acting[index] for index in places]
        return RoleSpec(agents, width, shared_actions(acting, "environment.scenario"), action_widths(acting))

    def _allowed(self) -> dict[str, Flags]:
        """By role (B, n, A), if its agents have different numbers of choices."""
        masks = {}
        for role, own in self._spec.roles.items():
            if isinstance(own.actions, Choices):
                counts = np.array([int(self._acting[self._place[name]].n) for name in own.agents])
                if len(set(counts.tolist())) > 1:
                    mask = np.arange(own.actions.count) < counts[:, None]
                    masks[role] = np.repeat(mask[None], self._count, axis=0)
        return masks

    def _translated(self, section: Vmas) -> list[torch.Tensor]:
        """By agent (A, P): the force of each choice; empty if VMAS translates choices itself.

        VMAS does this in every step, which is a third of its time with few agents; with continuous forces it makes
        the same steps. If agents communicate, choices are also messages and are not translated.
        """
        if section.continuous_actions or not all(agent.silent for agent in self._env.agents):
            return []
        self._env.continuous_actions = True
        return [_pushes(agent) for agent in self._env.agents]

    def _given(self, actions: Mapping[str, Actions]) -> list[torch.Tensor]:
        """One tensor per agent, in the order of the world: (B, 1) choices, or (B, own width) components within its bounds."""
        inputs: list[torch.Tensor] = [torch.empty(0)] * len(self._place)
        for role, own in self._spec.roles.items():
            for number, name in enumerate(own.agents):
                index = self._place[name]
                inputs[index] = self._given_to(index, actions[role][:, number], own.actions)
        return inputs

    def _given_to(self, index: int, chosen: Any, kind: ActionKind) -> torch.Tensor:
        if self._pushes:
            return self._pushes[index][torch.from_numpy(chosen)]
        space = self._acting[index]
        if isinstance(kind, Continuous):
            chosen = scaled(chosen, kind, space.low, space.high)
        return torch.as_tensor(np.array(chosen, dtype=np.float32)).reshape(self._count, -1)

    def _begin(self, ended: Flags) -> View:
        if ended.all():
            return self._view(self._env.reset(seed=self._seed()))
        self._env.seed(self._seed())
        for row in np.flatnonzero(ended):
            self._env.reset_at(int(row), return_observations=False)
        return self._view(self._env.get_from_scenario(True, False, False, False)[0])

    def _seed(self) -> int:
        return keyed_seed(*self._key, self._made_steps) >> 32

    def _view(self, seen: list[torch.Tensor]) -> View:
        observations: dict[str, Reals] = {}
        for role, own in self._spec.roles.items():
            rows = np.zeros((self._count, len(own.agents), own.observation_dim), dtype=np.float32)
            for number, name in enumerate(own.agents):
                values = seen[self._place[name]].numpy().reshape(self._count, -1)
                rows[:, number, : values.shape[1]] = values
            observations[role] = rows
        return View(observations, {role: mask.copy() for role, mask in self._masks.items()})

    def _entity(self, body: Any, index: int, kind: str) -> dict[str, Any]:
        x, y = (float(value) for value in body.state.pos[index])
        radius = max(float(body.shape.circumscribed_radius()), SMALLEST)
        entity: dict[str, Any] = {"name": body.name, "kind": kind, "x": x, "y": y, "radius": radius}
        if kind == "agent":
            entity["velocity"] = [float(value) * self._env.world.dt for value in body.state.vel[index]]
        return entity


def _made(section: Vmas, count: int) -> Any:
    vmas = import_optional("vmas", "vmas")
    try:
        environment = vmas.make_env(
            section.scenario,
            num_envs=count,
            device="cpu",
            continuous_actions=section.continuous_actions,
            max_steps=section.max_cycles,
            terminated_truncated=True,
            **section.args,
        )
    except (AssertionError, FileNotFoundError, TypeError, ValueError) as error:
        raise ConfigError(
            {"environment.scenario": f"{section.scenario} cannot be constructed: {error}"}
        ) from error
    return environment


def _pushes(agent: Any) -> torch.Tensor:
    """(A, P): as VMAS's Environment translates choices: the last component changes fastest, and with an odd count the
    first choice is zero.
    """
    counts = [int(count) for count in agent.discrete_action_nvec]
    levels = []
    for count, most in zip(counts, agent.action.u_range_tensor, strict=True):
        order = torch.arange(count)
        if count % 2:
            order = torch.cat([order[count // 2 :][:1], order[: count // 2], order[count // 2 + 1 :]])
        levels.append((order / (count - 1)) * (2 * most) - most)
    return torch.cartesian_prod(*levels).reshape(-1, len(counts))


def _space(space: Any, scenario: str) -> Any:
    """VMAS uses the spaces of Gym, Gymnasium's predecessor. Raises ConfigError for spaces that are neither Box nor discrete."""
    spaces = import_optional("gymnasium.spaces", "vmas")
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    if hasattr(space, "low"):
        return spaces.Box(space.low, space.high, space.shape, np.float32)
    raise ConfigError(
        {"environment.scenario": f"{scenario} has {space}, which is neither a Box nor a discrete space"}
    )

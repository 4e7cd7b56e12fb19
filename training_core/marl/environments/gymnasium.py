"""Gymnasium's environments. With one agent, B of them in one process are stepped by gymnasium.vector.SyncVectorEnv; teams are
stepped one by one, by PettingZoo's adapter.

Gymnasium resets episodes automatically at the next step, or in the same one, and then does not return the final state
as observation. Here this is disabled: a step returns the final state, and only ended environments are reset, each
with its own seed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.errors import ConfigError
from training_core.marl.environments.base import (
    Actions,
    Choices,
    Flags,
    RoleSpec,
    Spec,
    Success,
    Transition,
    VectorEnvironment,
    View,
    last_boards,
)
from training_core.marl.environments.config import GymnasiumVector
from training_core.marl.environments.episodes import ActionLog, Arrays, episode_seeds
from training_core.marl.environments.packages import SUCCESS, import_optional, joint_step_errors
from training_core.marl.environments.pettingzoo import AdapterSettings, PettingZooEnvironment
from training_core.marl.environments.sequential import SequentialEnvironments
from training_core.marl.environments.spaces import (
    flatten_observation,
    observation_width,
    shared_actions,
    shared_pictures,
    to_space,
)

AGENT = "agent_0"


class GymnasiumEnvironments:
    """A VectorEnvironment over SyncVectorEnv."""

    def __init__(self, section: GymnasiumVector, count: int) -> None:
        gymnasium = import_optional("gymnasium", "gymnasium")
        mode = gymnasium.vector.AutoresetMode.DISABLED
        settings = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": mode}}
        self._env = gymnasium.make_vec(section.id, count, **settings, **section.args)
        self._name, self._count = section.id, count
        self._seen, self._acting = self._env.single_observation_space, self._env.single_action_space
        role = RoleSpec(
            (AGENT,),
            observation_width(self._seen, "environment.id"),
            shared_actions([self._acting], "environment.id"),
            pictures=shared_pictures([self._seen]),
        )
        made = self._env.envs[0].spec
        self._spec = Spec({"agents": role}, max_steps=(made.max_episode_steps if made else None) or 0)
        self._numbers, self._seed = np.arange(count), 0
        self._episodes = np.zeros(count, dtype=np.int64)
        self._log = ActionLog(count)

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def count(self) -> int:
        return self._count

    def reset(self, seed: int, first: int = 0) -> View:
        self._seed, self._numbers = seed, np.arange(first, first + self._count)
        self._episodes[:] = 0
        self._log = ActionLog(self._count)
        return self._begin()

    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        for row, action in enumerate(actions["agents"]):
            self._log.add(row, {"agents": action})
        chosen = [self._own(action) for action in actions["agents"][:, 0]]
        with joint_step_errors(f"{self._name}, step"):
            observations, rewards, terminated, truncated, infos = self._env.step(np.stack(chosen))
        earned = {"agents": rewards.astype(np.float32)[:, None]}
        terminated, truncated = terminated.copy(), truncated & ~terminated
        ended, view = terminated | truncated, self._view(observations)
        if not ended.any():
            return Transition(view, earned, terminated, truncated)
        boards = last_boards(self, watched, ended)
        self._episodes += ended
        for row in np.flatnonzero(ended).tolist():
            self._log.begin(row)
        return Transition(
            self._begin({"reset_mask": ended}),
            earned,
            terminated,
            truncated,
            view,
            boards,
            successes=_successes(infos, ended),
        )

    def board(self, index: int) -> dict[str, Any] | None:
        """The environment's board(), if it has one."""
        inner = self._env.envs[index].unwrapped
        board: dict[str, Any] | None = inner.board() if hasattr(inner, "board") else None
        return board

    def episode_state(self) -> Arrays | None:
        """Seeds, and the actions since episodes began, from which they are replayed."""
        counters = {"seed": np.array([self._seed]), "numbers": self._numbers, "episodes": self._episodes}
        return {name: part.copy() for name, part in counters.items()} | self._log.arrays()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        self._seed, self._numbers = int(arrays["seed"][0]), arrays["numbers"].copy()
        self._episodes, self._log = arrays["episodes"].copy(), ActionLog(self._count)
        view = self._begin()
        for row, steps in enumerate(ActionLog.steps(arrays)):
            for actions in steps:
                self._log.add(row, actions)
                with joint_step_errors(f"{self._name}, step"):
                    seen, _, over, cut, _ = self._env.envs[row].step(self._own(actions["agents"][0]))
                if over or cut:
                    return None
                view.observations["agents"][row, 0] = flatten_observation(self._seen, seen)
        return view

    def close(self) -> None:
        self._env.close()

    def _own(self, action: Any) -> Any:
        """An action of one environment, in the type used by a step of all environments."""
        kind = np.int64 if isinstance(self._spec.roles["agents"].actions, Choices) else self._acting.dtype
        return np.asarray(to_space(self._acting, action, self._spec.roles["agents"].actions), dtype=kind)

    def _begin(self, options: dict[str, Any] | None = None) -> View:
        seeds = [int(seed) for seed in episode_seeds(self._seed, self._numbers, self._episodes)]
        with joint_step_errors(f"{self._name}, reset"):
            observations, _ = self._env.reset(seed=seeds, options=options)
        return self._view(observations)

    def _view(self, observations: Any) -> View:
        if isinstance(observations, np.ndarray):
            rows = list(observations)
        else:
            gymnasium = import_optional("gymnasium", "gymnasium")
            rows = list(gymnasium.vector.utils.iterate(self._env.observation_space, observations))
        return View({"agents": np.stack([flatten_observation(self._seen, row) for row in rows])[:, None]})


def make(section: GymnasiumVector, count: int) -> VectorEnvironment:
    """`count` environments of one agent, or of a team if actions are a tuple. Raises ConfigError if one cannot be constructed."""
    gymnasium = import_optional("gymnasium", "gymnasium")

    def construct() -> Any:
        return gymnasium.make(section.id, disable_env_checker=True, **section.args)

    try:
        probe = construct()
    except (gymnasium.error.Error, TypeError, ValueError, ImportError) as error:
        raise ConfigError({"environment.id": f"{section.id} cannot be constructed: {error}"}) from error
    probe.close()
    if not isinstance(probe.action_space, gymnasium.spaces.Tuple):
        return GymnasiumEnvironments(section, count)
    return SequentialEnvironments(lambda: team(construct()), count, section.id)


def _successes(infos: Mapping[str, Any], ended: Flags) -> dict[int, Success]:
    """Successes of episodes that ended. Gymnasium returns one array per key, and under "_key" which environments set it."""
    for key in SUCCESS:
        if key in infos:
            reported = np.asarray(infos.get(f"_{key}", ended), dtype=bool) & ended
            return {int(row): Success(whole=bool(infos[key][row])) for row in np.flatnonzero(reported)}
    return {}


class GymnasiumTeam:
    """PettingZoo's parallel interface to a team: agent_0, agent_1 and so on, which end together. As in level-based foraging and RWARE,
    spaces, observations and rewards are tuples with an entry for each agent.
    """

    def __init__(self, environment: Any) -> None:
        """Raises ConfigError if agents have no observation of their own."""
        seen, acting = environment.observation_space, environment.action_space
        if not isinstance(seen, type(acting)) or len(seen) != len(acting):
            text = f"actions of {len(acting)} agents need a tuple of as many observations, not {seen}"
            raise ConfigError({"environment.id": text})
        self._env, self.unwrapped, self.close = environment, environment.unwrapped, environment.close
        self.possible_agents = self.agents = [f"agent_{number}" for number in range(len(acting))]
        self.observation_space = self._by_agent(seen).__getitem__
        self.action_space = self._by_agent(acting).__getitem__

    def reset(self, seed: int) -> tuple[dict[str, Any], ...]:
        observations, info = self._env.reset(seed=seed)
        return self._by_agent(observations), dict.fromkeys(self.agents, info)

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        observations, *parts, info = self._env.step(tuple(actions[agent] for agent in self.agents))
        numbers = (np.broadcast_to(np.asarray(part), len(self.agents)) for part in parts)
        infos = dict.fromkeys(self.agents, info)
        return self._by_agent(observations), *map(self._by_agent, numbers), infos

    def _by_agent(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.agents, values, strict=True))


def team(environment: Any) -> PettingZooEnvironment:
    """The adapter of one environment. All choices are allowed: the interface has no masks."""
    most = (environment.spec.max_episode_steps if environment.spec else None) or 0
    return PettingZooEnvironment(
        GymnasiumTeam(environment), AdapterSettings(action_masks=False, max_steps=most)
    )

"""Custom environments with MARLKit's interface:

    num_agents, obs_dim, action_dim                     integers
    reset(seed=None) -> (obs (N, obs_dim), critic_obs (any fixed length))
    step(actions (N,) int64) -> (obs, critic_obs, reward: float, done: bool, info: dict)

or a factory(num_agents, seed, max_cycles, ...) -> (environment, obs_dim, action_dim, num_agents), as for MARLKit's
register_env.

The single reward is the team's: every agent gets an equal share. Keys of `info`: `action_mask` (N, action_dim), true
for allowed choices, `truncated`, true if the episode was truncated rather than terminated, and `success` at its end,
one for the team or one per agent. An optional method board() returns pictures.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from training_core.errors import ConfigError
from training_core.importing import load_object
from training_core.marl.environments.base import Actions, Choices, RoleSpec, Spec, Success
from training_core.marl.environments.config import CustomMarl
from training_core.marl.environments.packages import SUCCESS
from training_core.marl.environments.sequential import Outcome, SequentialEnvironments, SingleView

FIELD = "environment.path"
METHODS = ("reset", "step")
SIZES = ("obs_dim", "action_dim", "num_agents")


class MarlkitEnvironment:
    """One environment with this interface; or the result of MARLKit's factories, (env, obs_dim, action_dim, num_agents)."""

    def __init__(self, constructed: Any) -> None:
        has_sizes = isinstance(constructed, tuple) and len(constructed) == 4
        environment = constructed[0] if has_sizes else constructed
        required = METHODS if has_sizes else (*SIZES, *METHODS)
        if missing := [name for name in required if not hasattr(environment, name)]:
            raise ConfigError({FIELD: f"{type(environment).__name__} has no {', '.join(missing)}"})
        sizes = constructed[1:] if has_sizes else [getattr(environment, name) for name in SIZES]
        observation_dim, action_dim, agent_count = (int(size) for size in sizes)
        self._env = environment
        self._shape = (agent_count, observation_dim)
        agents = tuple(f"agent_{number}" for number in range(self._shape[0]))
        _, critic = environment.reset(seed=0)
        role = RoleSpec(agents, self._shape[1], Choices(action_dim))
        self.spec = Spec({"agents": role}, state_dim=np.asarray(critic).size)

    def reset(self, seed: int) -> SingleView:
        observations, critic = self._env.reset(seed=seed)
        return self._view(observations, critic, {})

    def step(self, actions: Mapping[str, Actions]) -> Outcome:
        observations, critic, reward, done, info = self._env.step(
            np.asarray(actions["agents"], dtype=np.int64)
        )
        agents = self._shape[0]
        shares = np.full(agents, float(reward) / agents, dtype=np.float32)
        truncated = bool(done) and bool(info.get("truncated", False))
        return Outcome(
            self._view(observations, critic, info),
            {"agents": shares},
            bool(done) and not truncated,
            truncated,
            success=self._success(info) if done else None,
        )

    def board(self) -> dict[str, Any] | None:
        board: dict[str, Any] | None = self._env.board() if hasattr(self._env, "board") else None
        return board

    def close(self) -> None:
        if hasattr(self._env, "close"):
            self._env.close()

    def _success(self, info: Mapping[str, Any]) -> Success | None:
        """Success of the team, or of each agent if there are as many values."""
        success = next((info[key] for key in SUCCESS if info.get(key) is not None), None)
        if success is None:
            return None
        successes = np.asarray(success).astype(bool).ravel()
        if len(successes) == 1:
            return Success(whole=bool(successes[0]))
        return Success(agents=dict(zip(self.spec.roles["agents"].agents, successes.tolist(), strict=True)))

    def _view(self, observations: Any, critic: Any, info: Mapping[str, Any]) -> SingleView:
        seen = np.asarray(observations, dtype=np.float32)
        state = np.asarray(critic, dtype=np.float32).ravel()
        if seen.shape != self._shape or len(state) != self.spec.state_dim:
            raise ValueError(
                f"obs {seen.shape} and critic_obs ({len(state)},), where {self._shape} and ({self.spec.state_dim},) were promised"
            )
        mask = np.asarray(info.get("action_mask", True)).astype(bool)
        role = self.spec.roles["agents"]
        assert isinstance(role.actions, Choices)
        return SingleView(
            {"agents": seen}, {"agents": np.broadcast_to(mask, (self._shape[0], role.actions.count))}, state
        )


def make(section: CustomMarl, count: int) -> SequentialEnvironments:
    """`count` instances of the class. Raises ConfigError if it cannot be constructed or does not match the interface."""
    factory = load_object(section.path, FIELD)

    def construct() -> MarlkitEnvironment:
        try:
            environment = factory(**section.args)
        except TypeError as error:
            raise ConfigError(
                {FIELD: f"{section.path} cannot be constructed with environment.args: {error}"}
            ) from error
        return MarlkitEnvironment(environment)

    return SequentialEnvironments(construct, count, section.path)

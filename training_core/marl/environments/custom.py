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

from training_core.config.marl.environments import CustomMarl
from training_core.errors import ConfigError
from training_core.importing import load_object
from training_core.marl.environments.base import Actions, Choices, RoleSpec, Spec, Success
from training_core.marl.environments.singles import Outcome, Sight, Singles
from training_core.marl.environments.success import SUCCESS

FIELD = "environment.path"
PLAYED = ("reset", "step")
SIZES = ("obs_dim", "action_dim", "num_agents")


class ContractSingle:
    """One environment with this interface; or the result of MARLKit's factories, (env, obs_dim, action_dim, num_agents)."""

    def __init__(self, made: Any) -> None:
        whole = isinstance(made, tuple) and len(made) == 4
        environment = made[0] if whole else made
        needed = PLAYED if whole else (*SIZES, *PLAYED)
        if missing := [name for name in needed if not hasattr(environment, name)]:
            raise ConfigError({FIELD: f"{type(environment).__name__} has no {', '.join(missing)}"})
        sizes = made[1:] if whole else [getattr(environment, name) for name in SIZES]
        observation_dim, action_dim, agent_count = (int(size) for size in sizes)
        self._env = environment
        self._shape = (agent_count, observation_dim)
        agents = tuple(f"agent_{number}" for number in range(self._shape[0]))
        _, critic = environment.reset(seed=0)
        role = RoleSpec(agents, self._shape[1], Choices(action_dim))
        self.spec = Spec({"agents": role}, state_dim=np.asarray(critic).size)

    def reset(self, seed: int) -> Sight:
        observations, critic = self._env.reset(seed=seed)
        return self._sight(observations, critic, {})

    def step(self, actions: Mapping[str, Actions]) -> Outcome:
        observations, critic, reward, done, info = self._env.step(
            np.asarray(actions["agents"], dtype=np.int64)
        )
        agents = self._shape[0]
        shares = np.full(agents, float(reward) / agents, dtype=np.float32)
        truncated = bool(done) and bool(info.get("truncated", False))
        return Outcome(
            self._sight(observations, critic, info),
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
        told = next((info[key] for key in SUCCESS if info.get(key) is not None), None)
        if told is None:
            return None
        each = np.asarray(told).astype(bool).ravel()
        if len(each) == 1:
            return Success(whole=bool(each[0]))
        return Success(agents=dict(zip(self.spec.roles["agents"].agents, each.tolist(), strict=True)))

    def _sight(self, observations: Any, critic: Any, info: Mapping[str, Any]) -> Sight:
        seen = np.asarray(observations, dtype=np.float32)
        state = np.asarray(critic, dtype=np.float32).ravel()
        if seen.shape != self._shape or len(state) != self.spec.state_dim:
            raise ValueError(
                f"obs {seen.shape} and critic_obs ({len(state)},), where {self._shape} and ({self.spec.state_dim},) were promised"
            )
        mask = np.asarray(info.get("action_mask", True)).astype(bool)
        role = self.spec.roles["agents"]
        assert isinstance(role.actions, Choices)
        return Sight(
            {"agents": seen}, {"agents": np.broadcast_to(mask, (self._shape[0], role.actions.count))}, state
        )


def make(section: CustomMarl, count: int) -> Singles:
    """`count` instances of the class. Raises ConfigError if it cannot be constructed or does not match the interface."""
    found = load_object(section.path, FIELD)

    def one() -> ContractSingle:
        try:
            environment = found(**section.args)
        except TypeError as error:
            raise ConfigError(
                {FIELD: f"{section.path} cannot be constructed with environment.args: {error}"}
            ) from error
        return ContractSingle(environment)

    return Singles(one, count, section.path)

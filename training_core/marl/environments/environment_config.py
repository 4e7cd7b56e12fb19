"""Config fields that environments of small networks share."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from training_core.config.base import EnvironmentSection, Section


class MarlEnvironment(EnvironmentSection):
    """Settings shared by all environments of small-network agents."""

    roles: ClassVar[tuple[str, ...]] = ("agents",)
    role_preset: ClassVar[str] = "spread_mappo"
    reward: Literal["team_sum", "team_mean", "agent"] = "team_sum"
    """What an agent learns from: the sum or the mean over its role's agents, or its own reward."""

    keeps_episodes: ClassVar[bool] = True
    """Whether unfinished episodes can be stored in checkpoints."""

    @classmethod
    def fixed_roles(cls, section: Mapping[str, Any]) -> tuple[str, ...]:
        """With `members`, these name the roles."""
        return () if cls.open_roles and section.get("members") else cls.roles

    @property
    def longest(self) -> int:
        """Steps of the longest episode; 0 if the config does not determine it."""
        return int(vars(self)["max_cycles"]) if "max_cycles" in type(self).model_fields else 0


class SuperSuit(Section):
    """Wrappers of the package SuperSuit, applied in this order. Native environments stack and pad themselves, with the same result."""

    normalise_observations: bool = False
    """Scale observations to 0 to 1 by the bounds of their space (normalize_obs_v0); needs finite bounds, which MPE does not have."""
    pad_observations: bool = False
    """Pad observations with zeros to the widest agent's (pad_observations_v0)."""
    pad_action_space: bool = False
    """Pad action spaces to the largest agent's (pad_action_space_v0)."""
    frame_stack: int = Field(1, ge=1, le=64)
    """Number of latest observations that an agent sees together (frame_stack_v1); 1 for none."""


class Wrapped(MarlEnvironment):
    """An environment whose copies are stepped one by one behind the vectorised interface."""

    supersuit: SuperSuit = SuperSuit()
    """Wrappers around the environment."""
    strict_agents: bool = True
    """Fail if an agent appears during an episode, or leaves it without having terminated or been truncated."""
    action_masks: bool = True
    """Use `action_mask` from each agent's info or observation, if present."""

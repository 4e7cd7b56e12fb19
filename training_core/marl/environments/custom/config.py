"""The config of custom environments by import path."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments
from training_core.importing import IMPORT_PATH
from training_core.marl.environments.environment_config import MarlEnvironment


class CustomMarl(MarlEnvironment):
    """A custom class with MARLKit's interface. Every agent gets an equal share of its single reward."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom_marl"] = "custom_marl"
    """reset(seed) -> (obs, critic_obs); step(actions) -> (obs, critic_obs, reward, done, info)."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class with num_agents, obs_dim, action_dim, reset and step; or a factory that returns
    (environment, obs_dim, action_dim, num_agents).
    """
    args: Arguments = {}
    """Arguments that the class or factory is called with."""

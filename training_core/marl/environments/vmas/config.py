"""The config of VMAS scenarios."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments
from training_core.marl.environments.environment_config import MarlEnvironment


class Vmas(MarlEnvironment):
    """A scenario of the vectorised simulator VMAS (arXiv 2207.03530)."""

    open_roles: ClassVar[bool] = True
    role_fields: ClassVar[tuple[str, ...]] = ("members",)
    keeps_episodes: ClassVar[bool] = False
    type: Literal["vmas"] = "vmas"
    """Needs the extra `marl`."""
    scenario: str = Field("simple_spread", max_length=100)
    """Name of a VMAS scenario."""
    max_cycles: int = Field(100, ge=1)
    """Steps of an episode."""
    continuous_actions: bool = False
    """Continuous forces instead of discrete moves."""
    args: Arguments = {}
    """Keyword arguments of the scenario, such as n_agents."""
    members: dict[str, tuple[str, ...]] = {}
    """Agents of each role, by name prefix, as for pettingzoo. Empty: one role has all of them."""

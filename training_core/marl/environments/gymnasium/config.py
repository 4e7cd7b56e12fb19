"""The config of Gymnasium environments."""

from typing import Literal

from pydantic import Field

from training_core.config.base import Arguments
from training_core.marl.environments.environment_config import MarlEnvironment


class GymnasiumVector(MarlEnvironment):
    """A Gymnasium environment, vectorised by Gymnasium; one agent."""

    type: Literal["gymnasium"] = "gymnasium"
    """A registered environment, e.g. CartPole-v1."""
    id: str = Field("CartPole-v1", max_length=200, pattern=r"^[\w./-]+$")
    """Registered name, without a module prefix, which would import arbitrary code."""
    args: Arguments = {}
    """Keyword arguments of gymnasium.make_vec."""

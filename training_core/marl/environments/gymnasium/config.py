"""The config of Gymnasium environments."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments
from training_core.marl.environments.environment_config import MarlEnvironment


class GymnasiumVector(MarlEnvironment):
    """A Gymnasium environment, vectorised by Gymnasium; one agent."""

    type: Literal["gymnasium"] = "gymnasium"
    """A registered environment, e.g. CartPole-v1."""
    import_fields: ClassVar[tuple[str, ...]] = ("id",)
    id: str = Field("CartPole-v1", max_length=200, pattern=r"^([\w.]+:)?[\w./-]+$")
    """Registered name; module:name for an environment that its module registers on import."""
    args: Arguments = {}
    """Keyword arguments of gymnasium.make_vec."""

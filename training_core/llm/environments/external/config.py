"""The config of tasks that external programs play."""

from typing import ClassVar, Literal

from training_core.config.base import EnvironmentSection


class External(EnvironmentSection):
    """Tasks that external programs play, for workflow.type = "rollout_buffer"."""

    roles: ClassVar[tuple[str, ...]] = ("agent",)
    open_roles: ClassVar[bool] = True
    type: Literal["external"] = "external"
    """Nothing is played in this run: any roles, with rollouts from external programs."""

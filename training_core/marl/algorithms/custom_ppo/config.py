"""The config of an algorithm by import path."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments
from training_core.importing import IMPORT_PATH
from training_core.marl.algorithms.ppo_config import MarlPpo, View


class CustomPpo(MarlPpo):
    """Custom multi-agent PPO: a class by import path defines the critic's input and the losses."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom_ppo"] = "custom_ppo"
    """A subclass of PolicyLearner of training_core/marl/learning/learner.py."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class, a subclass of PolicyLearner; it may override `make_critic_inputs`, `policy_loss` and `losses`."""
    args: Arguments = {}
    """Arguments that the class reads as `self.algorithm.args`."""
    critic_sees: View = "all"
    """The joint observation of all agents, or of the critic's role, or only its agent's; `make_critic_inputs` may override this."""

    @property
    def view(self) -> View:
        """The critic's view."""
        return self.critic_sees

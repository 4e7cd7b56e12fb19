"""Config classes of small networks' algorithms: multi-agent PPO with different critics."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments, Section
from training_core.config.effects import Effects, only_if, where
from training_core.importing import IMPORT_PATH

View = Literal["all", "team", "own"]
"""What a critic sees: the joint observation of all agents, that of its role's agents, or its agent's observation."""


class MarlPpo(Section):
    """Settings shared by the algorithms."""

    effects: ClassVar[Effects] = {"value_clip": where("clip_value", True)}
    type: str
    """The algorithm."""
    discount: float = Field(0.99, ge=0.0, le=1.0)
    """Gamma: discount of the reward per step."""
    gae_lambda: float = Field(0.95, ge=0.0, le=1.0)
    """0 relies on the values only (least variance), 1 on the observed returns only (no bias)."""
    clip: float = Field(0.2, gt=0.0)
    """Epsilon: the probability ratio is clipped to 1 - clip and 1 + clip."""
    clip_value: bool = False
    """Clip values to within value_clip of those at the start of the update."""
    value_clip: float = Field(0.2, gt=0.0)
    """Maximum change of a value, in units of normalised values if normalise_values is true."""
    target_kl: float = Field(0.0, ge=0.0)
    """Passes over the data end early once the approximate KL divergence exceeds this; 0 disables."""
    entropy_coefficient: float = Field(0.01, ge=0.0)
    """Weight of the entropy bonus."""
    value_coefficient: float = Field(0.5, ge=0.0)
    """Weight of the value loss."""
    normalise_advantages: bool = True
    """Normalise advantages by mean and standard deviation over all steps and agents of the policy's batch."""
    normalise_values: bool = True
    """Learn values on a scale that follows a running mean and standard deviation of the returns (PopArt)."""
    bootstrap_truncated: bool = True
    """Bootstrap truncated episodes: the value of the last state replaces the missing rewards."""

    @property
    def view(self) -> View:
        """The critic's view."""
        return "own"


class Ippo(MarlPpo):
    """Independent PPO: the critic sees its agent's observation (IPPO, arXiv 2011.09533)."""

    type: Literal["ippo"] = "ippo"
    """Decentralised critic on each agent's own observation."""


class Mappo(MarlPpo):
    """Multi-agent PPO: the critic sees the observations of all agents (MAPPO, arXiv 2103.01955)."""

    type: Literal["mappo"] = "mappo"
    """Centralised critic on the joint observation."""
    effects: ClassVar[Effects] = {
        "critic_sees": only_if(
            lambda at: len(at.config.team.roles) > 1,
            'with one role, "team" and "all" are the same observations',
        )
    }
    critic_sees: Literal["all", "team"] = "all"
    """The joint observation of all agents, or only of the critic's role; an environment's critic_obs takes precedence."""

    @property
    def view(self) -> View:
        """The critic's view."""
        return self.critic_sees


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

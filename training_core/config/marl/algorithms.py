"""Algorithms of small-network agents by `type`: multi-agent PPO with a centralised critic, and independent PPO."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments, Section
from training_core.importing import IMPORT_PATH

View = Literal["all", "team", "own"]
"""What a critic sees: the joint observation of all agents or of its role's, or its own agent's."""


class MarlPpo(Section):
    """What both can be asked for."""

    type: str
    """Which algorithm."""
    discount: float = Field(0.99, ge=0.0, le=1.0)
    """Gamma: what a reward is worth one step earlier."""
    gae_lambda: float = Field(0.95, ge=0.0, le=1.0)
    """0 trusts the values alone (least variance), 1 what was earned alone (no bias)."""
    clip: float = Field(0.2, gt=0.0)
    """Epsilon: probability ratios beyond 1 - clip and 1 + clip earn no more."""
    clip_value: bool = False
    """Hold values within value_clip of what they were when the update began."""
    value_clip: float = Field(0.2, gt=0.0)
    """How far a value may move, in units of normalised values where normalise_values is on."""
    target_kl: float = Field(0.0, ge=0.0)
    """Passes over the data end early once the approximate KL divergence exceeds it; 0 disables."""
    entropy_coefficient: float = Field(0.01, ge=0.0)
    """Weight of the entropy bonus."""
    value_coefficient: float = Field(0.5, ge=0.0)
    """Weight of the value loss."""
    normalise_advantages: bool = True
    """By mean and standard deviation over all steps and agents of the policy's batch."""
    normalise_values: bool = True
    """Learn values on a scale that follows a running mean and standard deviation of the returns (PopArt)."""
    bootstrap_truncated: bool = True
    """An episode that is cut off goes on in the values: V of its last state takes the place of what would have followed."""

    @property
    def view(self) -> View:
        """What the critic sees."""
        return "own"


class Mappo(MarlPpo):
    """Multi-agent PPO: the critic sees what all agents see (MAPPO, arXiv 2103.01955)."""

    type: Literal["mappo"] = "mappo"
    """Centralised critic on the joint observation."""
    critic_sees: Literal["all", "team"] = "all"
    """The joint observation of all agents, or of the critic's own role alone; an environment's own critic_obs goes before both."""

    @property
    def view(self) -> View:
        """What the critic sees."""
        return self.critic_sees


class Ippo(MarlPpo):
    """Independent PPO: the critic sees what its agent sees (IPPO, arXiv 2011.09533)."""

    type: Literal["ippo"] = "ippo"
    """Decentralised critic on each agent's own observation."""


class CustomPpo(MarlPpo):
    """Multi-agent PPO of your own: a class by import path says what the critic sees, and what the losses are."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom_ppo"] = "custom_ppo"
    """A class on PolicyLearner of training_core/marl/learning/learner.py."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class on PolicyLearner; it may override `make_sight`, `policy_loss` and `losses`."""
    args: Arguments = {}
    """What the class reads as `self.algorithm.args`."""
    critic_sees: View = "all"
    """The joint observation of all agents, or of the critic's own role, or its agent's alone; unless `make_sight` says otherwise."""

    @property
    def view(self) -> View:
        """What the critic sees."""
        return self.critic_sees


AnyMarlAlgorithm = Annotated[Mappo | Ippo | CustomPpo, Field(discriminator="type")]
"""One class per algorithm, told apart by `type`."""

MARL_ALGORITHM_CONFIGS: dict[str, type[MarlPpo]] = {"mappo": Mappo, "ippo": Ippo, "custom_ppo": CustomPpo}

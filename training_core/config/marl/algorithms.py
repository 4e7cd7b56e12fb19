"""Algorithms of small-network agents by `type`: multi-agent PPO with a centralised critic, and independent PPO."""

from typing import Annotated, Literal

from pydantic import Field

from training_core.config.base import Section


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


class Mappo(MarlPpo):
    """Multi-agent PPO: the critic sees what all agents see (MAPPO, arXiv 2103.01955)."""

    type: Literal["mappo"] = "mappo"
    """Centralised critic on the joint observation."""
    critic_sees: Literal["all", "team"] = "all"
    """The joint observation of all agents, or of the critic's own role alone; an environment's own critic_obs goes before both."""


class Ippo(MarlPpo):
    """Independent PPO: the critic sees what its agent sees (IPPO, arXiv 2011.09533)."""

    type: Literal["ippo"] = "ippo"
    """Decentralised critic on each agent's own observation."""


AnyMarlAlgorithm = Annotated[Mappo | Ippo, Field(discriminator="type")]
"""One class per algorithm, told apart by `type`."""

MARL_ALGORITHM_CONFIGS: dict[str, type[MarlPpo]] = {"mappo": Mappo, "ippo": Ippo}

"""The config of MAPPO."""

from typing import Literal

from training_core.marl.algorithms.ppo_config import MarlPpo, View


class Mappo(MarlPpo):
    """Multi-agent PPO: the critic sees the observations of all agents (MAPPO, arXiv 2103.01955)."""

    type: Literal["mappo"] = "mappo"
    """Centralised critic on the joint observation."""
    critic_sees: Literal["all", "team"] = "all"
    """The joint observation of all agents, or only of the critic's role; an environment's critic_obs takes precedence."""

    @property
    def view(self) -> View:
        """The critic's view."""
        return self.critic_sees

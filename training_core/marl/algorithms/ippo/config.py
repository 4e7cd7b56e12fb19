"""The config of IPPO."""

from typing import Literal

from training_core.marl.algorithms.ppo_config import MarlPpo


class Ippo(MarlPpo):
    """Independent PPO: the critic sees its agent's observation (IPPO, arXiv 2011.09533)."""

    type: Literal["ippo"] = "ippo"
    """Decentralised critic on each agent's own observation."""

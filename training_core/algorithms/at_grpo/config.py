"""The config of AT-GRPO."""

from typing import Literal

from training_core.algorithms.policy_gradient_config import PolicyGradient


class AtGrpo(PolicyGradient):
    """Agent- and turn-wise group-relative policy optimisation (AT-GRPO, arXiv 2510.11062)."""

    type: Literal["at_grpo"] = "at_grpo"
    """Groups are (task, agent, turn); candidates of a group share one state."""

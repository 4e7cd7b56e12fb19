"""The config of an algorithm by import path."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.algorithms.policy_gradient_config import PolicyGradient
from training_core.config.base import Arguments
from training_core.importing import IMPORT_PATH


class CustomAlgorithm(PolicyGradient):
    """Custom algorithm: a class by import path reshapes rewards, computes advantages or defines the loss."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """A subclass of AlgorithmHooks of training_core/algorithms/hooks.py."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class, a subclass of AlgorithmHooks that overrides `turn_rewards`, `group_rewards`, `advantages` or `policy_loss`."""
    args: Arguments = {}
    """Arguments that the class reads as `self.algorithm.args`."""

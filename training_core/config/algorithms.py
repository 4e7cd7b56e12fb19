"""Algorithms of language models by `type`, from the registry of their folders."""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from training_core.algorithms.policy_gradient_config import PolicyGradient
from training_core.algorithms.registry import ALGORITHMS

ALGORITHM_CONFIGS: dict[str, type[PolicyGradient]] = {tag: kind.config for tag, kind in ALGORITHMS.items()}
"""type -> config class."""

if TYPE_CHECKING:
    Algorithm = PolicyGradient
else:
    Algorithm = Annotated[Union[tuple(ALGORITHM_CONFIGS.values())], Field(discriminator="type")]  # noqa: UP007
    """One class per algorithm, selected by `type`."""

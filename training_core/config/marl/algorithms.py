"""Algorithms of small networks by `type`, from the registry of their folders."""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from training_core.marl.algorithms.ppo_config import MarlPpo
from training_core.marl.algorithms.registry import MARL_ALGORITHMS

MARL_ALGORITHM_CONFIGS: dict[str, type[MarlPpo]] = {tag: kind.config for tag, kind in MARL_ALGORITHMS.items()}
"""type -> config class."""

if TYPE_CHECKING:
    AnyMarlAlgorithm = MarlPpo
else:
    AnyMarlAlgorithm = Annotated[Union[tuple(MARL_ALGORITHM_CONFIGS.values())], Field(discriminator="type")]  # noqa: UP007
    """One class per algorithm, selected by `type`."""

"""Environments of language-model agents by `type`, from the registry of their folders."""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from training_core.config.base import EnvironmentSection
from training_core.llm.environments.registry import ENVIRONMENTS

ENVIRONMENT_CONFIGS: dict[str, type[EnvironmentSection]] = {
    tag: kind.config for tag, kind in ENVIRONMENTS.items()
}
"""type -> config class."""

if TYPE_CHECKING:
    Environment = EnvironmentSection
else:
    Environment = Annotated[Union[tuple(ENVIRONMENT_CONFIGS.values())], Field(discriminator="type")]  # noqa: UP007
    """One class per environment, selected by `type`."""

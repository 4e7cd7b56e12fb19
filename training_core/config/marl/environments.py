"""Environments of small-network agents by `type`, from the registry of their folders. The tags are MARLKit's registry names."""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from training_core.marl.environments.environment_config import MarlEnvironment
from training_core.marl.environments.registry import MARL_ENVIRONMENTS

MARL_ENVIRONMENT_CONFIGS: dict[str, type[MarlEnvironment]] = {
    tag: kind.config for tag, kind in MARL_ENVIRONMENTS.items()
}
"""type -> config class."""

if TYPE_CHECKING:
    AnyMarlEnvironment = MarlEnvironment
else:
    AnyMarlEnvironment = Annotated[
        Union[tuple(MARL_ENVIRONMENT_CONFIGS.values())],  # noqa: UP007
        Field(discriminator="type"),
    ]
    """One class per environment, selected by `type`."""

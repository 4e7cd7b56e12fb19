"""Engines, which sample a policy's tokens from prompts, by `type`; from the registry of their folders."""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from training_core.llm.generation.engine_config import EngineSection
from training_core.llm.generation.registry import ENGINES

ENGINE_CONFIGS: dict[str, type[EngineSection]] = {tag: kind.config for tag, kind in ENGINES.items()}
"""type -> config class."""

if TYPE_CHECKING:
    Engine = EngineSection
else:
    Engine = Annotated[Union[tuple(ENGINE_CONFIGS.values())], Field(discriminator="type")]  # noqa: UP007
    """One class per engine, selected by `type`."""

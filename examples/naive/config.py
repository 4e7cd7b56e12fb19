"""The config of the naive engine."""

from typing import Literal

from training_core.llm.generation.engine_config import EngineSection


class Naive(EngineSection):
    """A transformers model that computes every token from the whole text."""

    type: Literal["naive"] = "naive"
    """Slow; needs no cache, and runs every architecture."""

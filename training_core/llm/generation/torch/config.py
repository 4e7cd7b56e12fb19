"""The config of the torch engine."""

from typing import Literal

from pydantic import Field

from training_core.llm.generation.engine_config import EngineSection


class Torch(EngineSection):
    """A transformers model in the rollout worker itself."""

    type: Literal["torch"] = "torch"
    """Runs on a CPU or a GPU without further packages; the same seed gives the same tokens on every machine."""
    conversation_cache: int = Field(256, ge=0)
    """Size in MiB of the key-value cache kept between calls, for conversations and interrupted answers that continue; 0 disables."""
    static_shapes: Literal["auto", "on", "off"] = "auto"
    """Decode with a few fixed shapes, which a GPU replays as CUDA graphs; auto: only on a GPU."""

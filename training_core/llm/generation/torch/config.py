"""The config of the torch engine."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.effects import Effects, Place, on_a_gpu
from training_core.llm.generation.engine_config import EngineSection


def _keeps_conversations(at: Place) -> str:
    config = at.config
    talks = config.workflow.type in ("multi_turn", "agent", "rollout_workflow", "rollout_buffer")
    if talks or (config.rollout.staleness and config.rollout.partial):
        return ""
    return "no conversation is continued and no answer is interrupted in this run"


class Torch(EngineSection):
    """A transformers model in the rollout worker itself."""

    effects: ClassVar[Effects] = {
        "conversation_cache": _keeps_conversations,
        "static_shapes": lambda at: on_a_gpu(at) if at.section.static_shapes == "off" else "",
    }
    type: Literal["torch"] = "torch"
    """Runs on a CPU or a GPU without further packages; the same seed gives the same tokens on every machine."""
    conversation_cache: int = Field(256, ge=0)
    """Size in MiB of the key-value cache kept between calls, for conversations and interrupted answers that continue; 0 disables."""
    static_shapes: Literal["auto", "on", "off"] = "auto"
    """Decode with a few fixed shapes, which a GPU replays as CUDA graphs; auto: only on a GPU."""

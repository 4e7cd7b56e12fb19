"""Engines: what turns a policy's prompts into sampled tokens."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from training_core.config.base import Section

Url = Annotated[str, Field(pattern=r"^https?://[^\s?#]+$")]


class EngineSection(Section):
    """What every engine can be asked for."""

    type: str
    """Which engine generates."""
    max_batch: int = Field(512, ge=1)
    """Most sequences generated at once; others wait until there is room."""


class Torch(EngineSection):
    """A transformers model in the rollout worker itself."""

    type: Literal["torch"] = "torch"
    """On a CPU or a GPU, with what is installed anyway; the same seed gives the same tokens anywhere."""
    conversation_cache: int = Field(256, ge=0)
    """MiB of keys and values kept between calls, for conversations and interrupted answers that go on; 0 keeps none."""
    static_shapes: Literal["auto", "on", "off"] = "auto"
    """Decode in steps of few fixed shapes, which a GPU replays as CUDA graphs; auto: on a GPU alone."""


class Vllm(EngineSection):
    """vLLM in the rollout worker: needs the extra `gpu`, and devices.placement = "apart"."""

    type: Literal["vllm"] = "vllm"
    """New weights are written into vLLM's model in place; an adapter gets a name of its own for every version."""
    gpu_memory: float = Field(0.9, gt=0.0, le=1.0)
    """Share of the GPU's memory that vLLM takes for weights and cache; unused on a CPU."""
    context: int = Field(0, ge=0)
    """Longest prompt with its answer in tokens; 0 takes the model's own, which may need much memory."""
    eager: bool = False
    """Run without CUDA graphs: starts sooner, generates more slowly."""


class OpenAi(EngineSection):
    """A vLLM or SGLang server elsewhere, by the OpenAI API: needs devices.placement = "apart"."""

    model_name_fields: ClassVar[tuple[str, ...]] = ("model",)
    folder_fields: ClassVar[tuple[str, ...]] = ("weights_folder",)
    key_fields: ClassVar[Mapping[str, str]] = {"key_variable": "urls"}

    type: Literal["openai"] = "openai"
    """The server samples; it takes new weights from a folder that both sides see."""
    server: Literal["vllm", "sglang"] = "vllm"
    """Whose endpoints for new weights are used."""
    urls: tuple[Url, ...] = Field(("http://127.0.0.1:8000",), min_length=1)
    """Addresses of servers that hold the same model, without /v1; prompts are dealt out in turn."""
    model: str = ""
    """Its name there; empty takes the first that the server lists."""
    key_variable: str = Field("", pattern=r"^([A-Z0-9_]+_API_KEY)?$")
    """Name of the worker's environment variable that holds the API key, ending in _API_KEY; empty for none."""
    weights_folder: str = ""
    """Folder for new weights that servers see under the same path; needed where the policy is trained."""
    timeout: float = Field(600.0, gt=0.0)
    """Seconds that one answer, or one update of weights, may take."""
    attempts: int = Field(3, ge=1, le=20)
    """How often a request is made before it counts as failed: a server that restarts is waited for, longer each time."""


Engine = Annotated[Torch | Vllm | OpenAi, Field(discriminator="type")]
"""One class per engine, told apart by `type`."""

ENGINE_CONFIGS: dict[str, type[Section]] = {"torch": Torch, "vllm": Vllm, "openai": OpenAi}

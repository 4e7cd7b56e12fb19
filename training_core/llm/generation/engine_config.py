"""The config of engines: the fields that all have, and those of each."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from training_core.config.base import NumberOrAuto, Section
from training_core.config.effects import Effects, Place, on_a_gpu, trained

MOST_SEQUENCES = 512
"""Sequences generated at the same time with max_batch = "auto" where memory does not limit them."""
Url = Annotated[str, Field(pattern=r"^https?://[^\s?#]+$")]


class EngineSection(Section):
    """Settings shared by all engines."""

    weights: ClassVar[Literal["shared", "copied", "remote"]] = "shared"
    """Where the engine's weights are: shared with a learner in the same process, a copy in the process, or in a server. An engine
    with a copy is a SleepingEngine.
    """
    type: str
    """The engine that generates tokens."""
    max_batch: NumberOrAuto = "auto"
    """Maximum number of sequences generated at the same time; further requests wait. auto: 512; of the torch engine on a GPU the largest
    power of two from 8 to 512 whose estimated key-value cache fits.
    """

    @property
    def sequences(self) -> int:
        """Maximum number of sequences at the same time; for "auto" those where memory does not limit them."""
        return MOST_SEQUENCES if self.max_batch == "auto" else self.max_batch

    @property
    def gpus(self) -> int:
        """Maximum number of GPUs that the engine of one rollout worker uses."""
        return 1


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


class Auto(EngineSection):
    """vLLM where it is installed and generation has GPUs of its own, torch otherwise; decided once, when the run starts."""

    type: Literal["auto"] = "auto"
    """vLLM if the placement allows it and the extra gpu is installed, torch otherwise; the run's page shows which and why."""


def _holds_an_answer(at: Place) -> str:
    roles = [role for role in at.config.team.roles.values() if role.policy == at.policy]
    longest, context = max((role.sampling.max_tokens for role in roles), default=0), at.section.context
    if not 0 < context <= longest:
        return ""
    return f"{context} leaves a prompt no room before the answer of sampling.max_tokens = {longest}; set it higher"


class Vllm(EngineSection):
    """vLLM in the process that generates: needs the extra `gpu`. In a colocated policy it sleeps during updates."""

    weights: ClassVar[Literal["shared", "copied", "remote"]] = "copied"
    effects: ClassVar[Effects] = {"gpu_memory": on_a_gpu}
    orders: ClassVar[Effects] = {"context": _holds_an_answer}
    type: Literal["vllm"] = "vllm"
    """New weights are written into vLLM's model in place; every version of an adapter has its own name."""
    gpu_memory: float = Field(0.9, gt=0.0, le=1.0)
    """Share of the GPU's memory that vLLM uses for weights and cache; a colocated policy's model and optimiser need the rest.
    Unused on a CPU.
    """
    tensor_parallel: int = Field(1, ge=1, le=1024)
    """GPUs over which vLLM splits the model; above 1, devices.rollout_gpus must be the same number."""
    context: int = Field(0, ge=0)
    """Maximum length of prompt plus answer in tokens; 0 uses the model's maximum, which may need much memory."""
    eager: bool = False
    """Run without CUDA graphs: starts faster, generates more slowly."""

    @property
    def gpus(self) -> int:
        """Maximum number of GPUs that the engine of one rollout worker uses."""
        return self.tensor_parallel


class OpenAi(EngineSection):
    """A separate vLLM or SGLang server, called through the OpenAI API: needs devices.placement = "apart"."""

    weights: ClassVar[Literal["shared", "copied", "remote"]] = "remote"
    model_name_fields: ClassVar[tuple[str, ...]] = ("model",)
    folder_fields: ClassVar[tuple[str, ...]] = ("weights_folder",)
    key_fields: ClassVar[Mapping[str, str]] = {"key_variable": "urls"}
    address_fields: ClassVar[tuple[str, ...]] = ("urls",)

    effects: ClassVar[Effects] = {"weights_folder": trained}
    type: Literal["openai"] = "openai"
    """The server samples; it loads new weights from a shared folder."""
    server: Literal["vllm", "sglang"] = "vllm"
    """Server type, which determines the endpoints for new weights."""
    urls: tuple[Url, ...] = Field(("http://127.0.0.1:8000",), min_length=1)
    """URLs of servers with the same model, without /v1; prompts are distributed round-robin."""
    model: str = ""
    """Model name on the server; empty uses the first model that the server lists."""
    key_variable: str = Field("", pattern=r"^([A-Z0-9_]+_API_KEY)?$")
    """Name of the worker's environment variable that holds the API key, ending in _API_KEY; empty for none."""
    weights_folder: str = ""
    """Folder for new weights that servers see under the same path; required if the policy is trained."""
    timeout: float = Field(600.0, gt=0.0)
    """Maximum time for one answer, or one update of weights, in seconds."""
    attempts: int = Field(3, ge=1, le=20)
    """Attempts per request before it fails; the wait between attempts grows, so that a restarting server is reached again."""

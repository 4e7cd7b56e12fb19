"""The config of the vllm engine."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.effects import Effects, on_a_gpu
from training_core.llm.generation.engine_config import EngineSection


class Vllm(EngineSection):
    """vLLM in the process that generates: needs the extra `gpu`. In a colocated policy it sleeps during updates."""

    weights: ClassVar[Literal["shared", "copied", "remote"]] = "copied"
    effects: ClassVar[Effects] = {"gpu_memory": on_a_gpu}
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

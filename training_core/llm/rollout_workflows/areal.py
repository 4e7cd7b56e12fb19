"""AReaL's names in one place: replace a workflow's imports of areal (or arealite) by an import from here, and nothing else."""

from training_core.llm.rollout_workflows.api import (
    GenerationHyperparameters,
    LLMRequest,
    ModelRequest,
    ModelResponse,
    RolloutWorkflow,
    Trajectory,
)
from training_core.llm.rollout_workflows.inference_engine import InferenceEngine
from training_core.llm.rollout_workflows.loader import RestartingLoader
from training_core.llm.rollout_workflows.making import AsyncRewardWrapper
from training_core.llm.rollout_workflows.queue_agents import (
    Agent,
    BundledGenerationOutputs,
    EnvironmentService,
)
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors

TensorDict = Trajectory
LLMResponse = ModelResponse
cycle_dataloader = RestartingLoader

__all__ = [
    "Agent",
    "AsyncRewardWrapper",
    "BundledGenerationOutputs",
    "EnvironmentService",
    "GenerationHyperparameters",
    "InferenceEngine",
    "LLMRequest",
    "LLMResponse",
    "ModelRequest",
    "ModelResponse",
    "RestartingLoader",
    "RolloutWorkflow",
    "TensorDict",
    "cycle_dataloader",
    "concat_padded_tensors",
]

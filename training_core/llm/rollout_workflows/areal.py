"""AReaL's names in one place: only imports of areal, arealite or realhf need to be replaced."""

from training_core.llm.rollout_workflows.api import (
    GenerationHyperparameters,
    LLMRequest,
    ModelRequest,
    ModelResponse,
    RolloutWorkflow,
    Trajectory,
)
from training_core.llm.rollout_workflows.factory import AsyncRewardWrapper
from training_core.llm.rollout_workflows.inference_engine import InferenceEngine
from training_core.llm.rollout_workflows.loader import RestartingLoader
from training_core.llm.rollout_workflows.queue_agents import (
    Agent,
    BundledGenerationOutputs,
    EnvironmentService,
)
from training_core.llm.rollout_workflows.registered import (
    AgentAbstraction,
    AsyncRLExperimentConfig,
    EnvServiceAbstraction,
    PPOMATHConfig,
    register_agent,
    register_environment,
)
from training_core.llm.rollout_workflows.stats_tracker import StatsTracker
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors

TensorDict = Trajectory
LLMResponse = ModelResponse
cycle_dataloader = RestartingLoader
stats_tracker = StatsTracker()

__all__ = [
    "Agent",
    "AgentAbstraction",
    "AsyncRLExperimentConfig",
    "AsyncRewardWrapper",
    "BundledGenerationOutputs",
    "EnvServiceAbstraction",
    "EnvironmentService",
    "GenerationHyperparameters",
    "InferenceEngine",
    "LLMRequest",
    "LLMResponse",
    "ModelRequest",
    "ModelResponse",
    "PPOMATHConfig",
    "RestartingLoader",
    "RolloutWorkflow",
    "TensorDict",
    "cycle_dataloader",
    "concat_padded_tensors",
    "register_agent",
    "register_environment",
    "stats_tracker",
]

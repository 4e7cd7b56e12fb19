"""AReaL's names in one place: only imports of areal, arealite or realhf need to be replaced."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from training_core.llm.rollout_workflows.api import (
    GenerationHyperparameters,
    LLMRequest,
    ModelRequest,
    ModelResponse,
    RolloutWorkflow,
    Trajectory,
)
from training_core.llm.rollout_workflows.factory import (
    Agent,
    AgentAbstraction,
    AsyncRewardWrapper,
    AsyncRLExperimentConfig,
    BundledGenerationOutputs,
    EnvironmentService,
    EnvServiceAbstraction,
    PPOMATHConfig,
    register_agent,
    register_environment,
)
from training_core.llm.rollout_workflows.inference_engine import InferenceEngine, RestartingLoader
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors


class StatsTracker:
    """Seconds by part, until export."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    @contextmanager
    def record_timing(self, key: str) -> Iterator[None]:
        """Record the duration of the block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds.setdefault(key, []).append(time.perf_counter() - start)

    def export(self) -> dict[str, float]:
        """Mean seconds of each part as `timeperf/<key>`, AReaL's names. Resets the seconds."""
        means = {f"timeperf/{key}": sum(seconds) / len(seconds) for key, seconds in self._seconds.items()}
        self._seconds = {}
        return means


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

"""The interface of rollout workflows as in AReaL: requests, responses, and the base class.

Names and fields are AReaL's (areal/api, 2025), so a workflow written for AReaL only needs other imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from training_core.types import StopReason

if TYPE_CHECKING:
    from torch import Tensor

    from training_core.llm.rollout_workflows.inference_engine import InferenceEngine


@dataclass(frozen=True)
class GenerationHyperparameters:
    """How answers are sampled."""

    n_samples: int = 1
    max_new_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    """1 disables."""
    top_k: int = 0
    """0 disables."""
    greedy: bool = False
    stop: tuple[str, ...] = ()
    """Strings that end an answer."""

    def new(self, **changes: Any) -> Self:
        """A copy with changes."""
        return replace(self, **changes)


def new_id() -> str:
    """A new id for a request, or for all requests of one conversation."""
    return uuid4().hex


@dataclass(frozen=True)
class ModelRequest:
    """One call to the policy."""

    input_ids: Any
    """Token ids: a list, a tensor, or a tokenizer's output."""
    gconfig: GenerationHyperparameters = GenerationHyperparameters()
    rid: str = field(default_factory=new_id)
    """Identical for the calls of one conversation, so that an engine may cache keys and values."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


LLMRequest = ModelRequest
"""Its name in AReaL until 2025."""


@dataclass(frozen=True)
class ModelResponse:
    """The policy's answer; the lists have one entry per output token."""

    input_tokens: list[int]
    output_tokens: list[int]
    output_logprobs: list[float]
    output_versions: list[int]
    """Version of the weights that sampled each token."""
    stop_reason: StopReason
    latency: float = 0.0
    """Seconds from request to response."""

    @property
    def input_len(self) -> int:
        """Number of tokens of the prompt."""
        return len(self.input_tokens)

    @property
    def output_len(self) -> int:
        """Number of tokens of the answer, including its end-of-turn token."""
        return len(self.output_tokens)


@dataclass(frozen=True)
class Interaction:
    """One call with its reward: another form in which a workflow may return an episode."""

    response: ModelResponse
    reward: float = 0.0
    role: str = ""
    """Role of the call; empty for the team's first role."""


Trajectory = dict[str, "Tensor"]
"""input_ids, attention_mask (B, S); loss_mask, logprobs, versions (B, S); rewards (B,). Padded on the right."""
EpisodeResult = Trajectory | list[Interaction] | Mapping[str, Interaction] | None
"""None: the episode is rejected."""


class RolloutWorkflow(ABC):
    """The base class of workflows, which play one episode."""

    @abstractmethod
    async def arun_episode(self, engine: "InferenceEngine", data: dict[str, Any]) -> EpisodeResult:
        """Play one episode on `data`. None rejects it: another episode replaces it."""

"""Parameters and results of a policy's workers. Free of torch: the driver imports this module."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from training_core.config.models import Policy
from training_core.config.run import RunConfig
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Group, Prompt
from workers.protocol.records import Span, System

Address = tuple[str, int]
"""Host and port at which processes connect to each other."""


@dataclass(frozen=True)
class WorkerSpec:
    """Parameters of one worker of one policy."""

    name: str
    policy: str
    config: RunConfig
    home: Path
    """TROUPE_HOME, where base models are cached."""
    gpus: float = 0.0
    rank: int = 0
    """Index among the policy's workers of the same kind."""

    @property
    def section(self) -> Policy:
        """The policy's part of the config."""
        return self.config.policies[self.policy]

    @property
    def gpu_field(self) -> str:
        """The config field that requests the worker's GPUs."""
        kind = "update" if self.name.startswith("update") else "rollout"
        return f"policies.{self.policy}.devices.{kind}_gpus"


@dataclass(frozen=True)
class Ready:
    """Facts about a policy whose workers have started."""

    model: str
    """Folder or hub id that model and tokenizer were loaded from."""
    base: dict[str, Any]
    """Facts about the base model, including its troupe.json if it has one."""
    version: int
    spans: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class Generated:
    """Answers per prompt, and the workers' spans."""

    answers: list[list[Answer]]
    spans: list[Span]


@dataclass(frozen=True)
class TokenFigures:
    """Values that a learner computed for one group, per answer and token; empty lists for answers that it did not get."""

    ratios: list[list[float]]
    entropies: list[list[float]]
    training_logprobs: list[list[float]]
    masks: list[list[int]]
    """1 for tokens in the loss, else 0."""


@dataclass(frozen=True)
class PolicyUpdate:
    """Result of one policy's update."""

    metrics: dict[str, float]
    annotations: dict[tuple[str, int], TokenFigures]
    """By (episode, turn position), for the requested episodes."""
    answers: int
    dropped: int
    lag: int
    spans: list[Span]
    """One per update process."""


class PolicyProxy(Protocol):
    """The interface of one policy's workers for the coordinator, in this process or on Ray."""

    def start(self, resume_from: Path | None) -> Ready:
        """Load model, optimiser and, if given, the checkpoint. Raises ModelError, CheckpointError."""
        ...

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Sample answers with the weights of `version`. Raises StalePolicy, EngineFailure."""
        ...

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Update once on data of `version`. Returns token values of the `annotated` episodes. Raises StalePolicy."""
        ...

    def publish(self, version: int, iteration: int) -> list[Span]:
        """Send the updated weights to the policy's rollout workers as `version`, before they generate again."""
        ...

    def save(self, folder: Path) -> None:
        """Write this policy's part of a checkpoint."""
        ...

    def system(self) -> System:
        """Load of the workers' machines, and of their devices since the last call."""
        ...

"""What a worker is told when it starts, and what it answers. No torch here: the driver reads these."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from training_core.config.models import Policy
from training_core.config.run import RunConfig
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Group, Prompt
from workers.protocol.records import Span, System


@dataclass(frozen=True)
class WorkerSpec:
    """One worker of one policy."""

    name: str
    policy: str
    config: RunConfig
    home: Path
    """TROUPE_HOME, where base models are cached."""
    gpus: float = 0.0
    rank: int = 0
    """Place among the workers of its kind that this policy has."""

    @property
    def section(self) -> Policy:
        """The policy's part of the config."""
        return self.config.policies[self.policy]


@dataclass(frozen=True)
class Ready:
    """A policy's worker stands."""

    model: str
    """Folder or hub id that model and tokenizer were loaded from."""
    base: dict[str, Any]
    """What the base model is (its troupe.json, where it has one)."""
    version: int
    spans: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class Generated:
    """Answers per prompt, and who worked when."""

    answers: list[list[Answer]]
    spans: list[Span]


@dataclass(frozen=True)
class TokenFigures:
    """What a learner computed about one group, per answer and token."""

    ratios: list[list[float]]
    entropies: list[list[float]]
    training_logprobs: list[list[float]]


@dataclass(frozen=True)
class PolicyUpdate:
    """What one policy's update says."""

    metrics: dict[str, float]
    annotations: dict[tuple[str, int], TokenFigures]
    """By (episode, turn position), of the episodes that were asked for."""
    answers: int
    dropped: int
    lag: int
    spans: list[Span]
    """One per process that learnt."""


class PolicyProxy(Protocol):
    """One policy's workers as the coordinator sees them: in this process, or behind Ray."""

    def start(self, resume_from: Path | None) -> Ready:
        """Load model, optimiser and (if given) the checkpoint. Raises ModelError, CheckpointError."""
        ...

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Sample answers with the weights of `version`. Raises StalePolicy, EngineFailure."""
        ...

    def update(self, groups: list[Group], iteration: int, version: int, wanted: set[str]) -> PolicyUpdate:
        """One update on data of `version`; token figures of the `wanted` episodes. Raises StalePolicy."""
        ...

    def publish(self, version: int, iteration: int) -> list[Span]:
        """Make the updated weights `version` wherever this policy generates, before what waits to be generated."""
        ...

    def save(self, folder: Path) -> None:
        """Write this policy's part of a checkpoint."""
        ...

    def system(self) -> System:
        """Load of the machines that these workers run on, and of their devices since the last call."""
        ...

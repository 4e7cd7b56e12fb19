"""The fields that all engines have."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Section


class EngineSection(Section):
    """Settings shared by all engines."""

    weights: ClassVar[Literal["shared", "copied", "remote"]] = "shared"
    """Where the engine's weights are: shared with a learner in the same process, a copy in the process, or in a server. An engine
    with a copy is a SleepingEngine.
    """
    type: str
    """The engine that generates tokens."""
    max_batch: int = Field(512, ge=1)
    """Maximum number of sequences generated at the same time; further requests wait."""

    @property
    def gpus(self) -> int:
        """Maximum number of GPUs that the engine of one rollout worker uses."""
        return 1

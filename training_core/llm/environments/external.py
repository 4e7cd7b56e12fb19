"""Tasks that external programs play: nothing is played in this run."""

from typing import Any, ClassVar, Literal, Self

from training_core.config.base import EnvironmentSection
from training_core.errors import Advice, EnvironmentFailure
from training_core.llm.environments.base import Split, StepResult


class External(EnvironmentSection):
    """Tasks that external programs play, for workflow.type = "rollout_buffer"."""

    roles: ClassVar[tuple[str, ...]] = ("agent",)
    open_roles: ClassVar[bool] = True
    type: Literal["external"] = "external"
    """Nothing is played in this run: any roles, with rollouts from external programs."""


_SAID = Advice(
    "this run's tasks are played by external programs",
    "set workflow.evaluation_file, or evaluation.every = 0",
)


class ExternalEnvironment:
    """A TextEnvironment that raises when it is played."""

    roles: ClassVar[tuple[str, ...]] = External.roles
    title = task_id = outcome = "played outside"
    success = False
    done = True

    def __init__(self, section: External, seed: int) -> None:
        """Nothing to load."""

    def reset(self, task: int, split: Split) -> None:
        """Raises EnvironmentFailure."""
        raise EnvironmentFailure(_SAID)

    def observe(self, role: str) -> str | None:
        """Raises EnvironmentFailure."""
        raise EnvironmentFailure(_SAID)

    def act(self, role: str, answer: str) -> StepResult:
        """Raises EnvironmentFailure."""
        raise EnvironmentFailure(_SAID)

    def copy(self) -> Self:
        """Itself: it has no state."""
        return self

    def board(self) -> dict[str, Any]:
        """Nothing to draw."""
        return {}

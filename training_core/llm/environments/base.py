"""What a text environment is: one object plays one task for a team of roles."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

from training_core.types import Message

Split = Literal["train", "eval"]
Demonstration = tuple[str | tuple[Message, ...], str]
"""What a role sees, as one text or as a conversation so far, and what it might say."""


@dataclass(frozen=True)
class StepResult:
    """What one answer did."""

    local_reward: float
    """To the role that spoke."""
    team_reward: float
    """To the team."""
    done: bool
    success: bool
    info: str
    """The effect in a few words, for transcripts."""
    timed_out: bool | None = None
    """Whether its reward function ran out of time; None where none was asked."""


class TextEnvironment(Protocol):
    """One task at a time: reset, then roles observe and act in the team's order.

    An environment whose roles succeed apart from one another also has `role_success`, a mapping of role to bool, as things
    stand; it is reported as `eval/<role>/success`, beside the team's.
    """

    roles: ClassVar[tuple[str, ...]]

    def reset(self, task: int, split: Split) -> None:
        """Start task number `task`: the same instance for the same (seed, split, number); splits never overlap."""
        ...

    def observe(self, role: str) -> str | tuple[Message, ...] | None:
        """What this role sees now, as text or as a conversation; None where it is not this role's turn: it is left out."""
        ...

    def act(self, role: str, answer: str) -> StepResult:
        """Take this role's answer."""
        ...

    def copy(self) -> Self:
        """An independent copy of the current state."""
        ...

    def board(self) -> dict[str, Any]:
        """The state as a picture: one of training_core/boards.py, as a dict."""
        ...

    @property
    def title(self) -> str:
        """The task in a few words."""
        ...

    @property
    def task_id(self) -> str:
        """A stable name of the task."""
        ...

    @property
    def outcome(self) -> str:
        """How it ended, or stands, in a few words."""
        ...

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        ...

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        ...

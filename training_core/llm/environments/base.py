"""The interface of text environments: one object plays one task for a team of roles."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self

from training_core.types import Message

Split = Literal["train", "eval"]
TRY_AGAIN = "Your answer is not correct. Please try to answer it again."
"""The feedback to a role after a wrong answer, as in AReaL's multi-turn workflow."""
Demonstration = tuple[str | tuple[Message, ...], str]
"""A role's observation, as one text or as a conversation so far, with a possible answer."""


class SampledText(str):
    """An answer's text with its tokens, for environments whose section has `reads_tokens`."""

    prompt_ids: Sequence[int] = ()
    token_ids: Sequence[int] = ()

    @classmethod
    def of(cls, text: str, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Self:
        """The text of an answer to a prompt."""
        sampled = cls(text)
        sampled.prompt_ids, sampled.token_ids = prompt_ids, token_ids
        return sampled


@dataclass(frozen=True)
class WarmStart:
    """Data of a tiny base model for an environment."""

    vocabulary: Callable[[Any], tuple[str, ...]]
    """Config section -> every word of observations and answers."""
    demonstrations: Callable[[Any, int], Iterator[Demonstration]]
    """(config section, seed) -> endless (observation, answer) pairs."""
    noise: float
    """Share of demonstrated words that were replaced at random."""


@dataclass(frozen=True)
class StepResult:
    """The effect of one answer."""

    local_reward: float
    """Reward of the role that answered."""
    team_reward: float
    """Reward of the team."""
    done: bool
    success: bool
    info: str
    """The effect in a few words, for transcripts."""
    timed_out: bool | None = None
    """Whether its reward function ran out of time; None if none was called."""
    scored: bool = True
    """False if no reward applies to the answer: it is left out of its group, and both rewards are 0."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Further rewards of single roles, also of those that do not answer now, as in a zero-sum game. A role that is silent now
    earns its part by its last answer; before its first answer it is counted, but nothing learns from it.
    """
    parts: Mapping[str, float] = field(default_factory=dict)
    """Parts of the role's reward by name, for curves only: train/<role>/reward/<part>."""


class TextEnvironment(Protocol):
    """One task at a time: reset, then roles observe and act in the team's order.

    An environment whose roles succeed separately also has `role_success`, a mapping of role to bool for the current
    state; it is reported as `eval/<role>/success`, in addition to the team's. One that scores answers together has
    `score_group(role, answers)`, which is called with all answers to a state and returns a score for each (None: act is called), and
    `act_scored(role, answer, score)`, which applies one of them to a copy.
    """

    roles: ClassVar[tuple[str, ...]]

    def reset(self, task: int, split: Split) -> None:
        """Start task number `task`: the same instance for the same (seed, split, number); splits never overlap."""
        ...

    def observe(self, role: str) -> str | tuple[Message, ...] | None:
        """The current observation of this role, as text or as a conversation; None skips the role in this turn."""
        ...

    def act(self, role: str, answer: str) -> StepResult:
        """Apply this role's answer."""
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
        """The outcome, or the current state, in a few words."""
        ...

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        ...

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        ...

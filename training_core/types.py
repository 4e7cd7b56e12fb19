"""Types that cross module borders in the language-model part.

A group is the K candidates sampled from one state: (task, turn, role). Tensors do not appear here: these are
plain lists, cheap to pickle, and what reports and learners both read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar

Item = TypeVar("Item")

StopReason = Literal["stop", "length", "interrupt"]
NOT_SAMPLED = -1
"""Version of a token that no policy sampled."""


class Message(TypedDict):
    """An OpenAI chat message."""

    role: str
    content: str


class NoiseKey(NamedTuple):
    """What sampling noise depends on: never on a worker or on a place in a batch."""

    seed: int
    stream: int
    """0 training, 1 sampled evaluation, 2 training by whole episodes."""
    iteration: int
    task: int
    turn: int
    role: int
    """Index of the role in the team's order."""


@dataclass(frozen=True)
class Prompt:
    """One state to sample `count` answers from."""

    token_ids: list[int]
    count: int
    key: NoiseKey
    first: int = 0
    """Index of the first of these candidates in the group; noise depends on it."""
    offset: int = 0
    """How many tokens at the end of `token_ids` a candidate has said already: its answer goes on after them."""
    rid: str = ""
    """The same for all prompts of one conversation: an engine may keep what it computed of it. Empty: nothing is kept."""


@dataclass(frozen=True)
class Answer:
    """What follows a prompt; the lists have one entry per token.

    Usually one sampled answer. It may hold text between what was sampled (a tool's result, the next question): loss_mask
    tells it apart, and its logprobs are 0.0 and its versions NOT_SAMPLED.
    """

    token_ids: list[int]
    logprobs: list[float]
    """Under the distribution sampled from: after temperature and truncation."""
    versions: list[int]
    stop_reason: StopReason
    text: str
    loss_mask: list[bool] | None = None
    """Which tokens are learnt from; None for all."""

    def learnt(self, values: Sequence[Item]) -> list[Item]:
        """Those of `values`, one per token, whose tokens are learnt from."""
        return list(values) if self.loss_mask is None else list(compress(values, self.loss_mask))


@dataclass
class Candidate:
    """An answer with what it earned."""

    answer: Answer
    local_reward: float = 0.0
    team_reward: float = 0.0
    reward: float = 0.0
    """team_weight * team_reward + local_weight * local_reward, less what an overlong answer costs."""
    advantage: float | None = None


@dataclass
class Turn:
    """One agent speaking once."""

    index: int
    role: str
    policy: str
    messages: list[Message]
    prompt_ids: list[int]
    candidates: list[Candidate]
    executed: int
    board: dict[str, Any] | None = None


@dataclass(frozen=True)
class Stage:
    """A stretch of an episode's time; seconds since the epoch."""

    kind: Literal["generate", "environment"]
    """Whom it waited for: a policy, or its environment (and the tools behind it)."""
    start: float
    end: float
    role: str = ""
    policy: str = ""
    versions: tuple[int, int] | None = None
    """Oldest and newest policy version of the tokens that were generated."""


@dataclass
class Episode:
    """One task played to its end. `failed` with `error` when the environment raised."""

    id: str
    iteration: int
    kind: Literal["train", "eval", "eval_sampled"]
    task: str
    title: str
    turns: list[Turn] = field(default_factory=list)
    outcome: str = ""
    success: bool = False
    role_success: dict[str, bool] = field(default_factory=dict)
    """By role, where the environment reports it beside the team's."""
    failed: bool = False
    error: str = ""
    probe: bool = False
    reward_timeouts: int | None = None
    """Answers whose reward function ran out of time; None where none was asked."""
    siblings: str = ""
    """Name of the episodes of one task that are compared as wholes; empty where candidates of a turn are."""
    turn_discount: float | None = None
    """Siblings are compared turn by turn: a turn's return is its reward and this times the return of its role's next turn.
    None compares what a role earned in the whole episode.
    """
    started: float = 0.0
    ended: float = 0.0
    final_board: dict[str, Any] | None = None
    stages: list[Stage] = field(default_factory=list)
    """In order of time."""

    @property
    def episode_return(self) -> float:
        """Sum of the executed candidates' rewards."""
        return sum(turn.candidates[turn.executed].reward for turn in self.turns)

    def role_return(self, role: str) -> float:
        """The part of it that one role earned."""
        return sum(turn.candidates[turn.executed].reward for turn in self.turns if turn.role == role)


class Compared(NamedTuple):
    """What an answer's reward is compared as, before it is normalised."""

    unit: int
    """The answer itself, or the episode of its role where whole episodes are compared: answers of one unit share a reward."""
    group: int
    """The units that are compared with one another, numbered over the policy's batch from 0."""
    reward: float
    """Of the unit, reshaped."""


@dataclass(frozen=True)
class Group:
    """A trained group: what a learner gets. One prompt, K answers with advantages."""

    episode: str
    turn: int
    """Position in the episode's `turns`."""
    prompt_ids: list[int]
    answers: list[Answer]
    rewards: list[float]
    advantages: list[float]
    temperature: float
    top_k: int
    top_p: float
    max_tokens: int = 1
    """Longest answer allowed: what a constant average divides by."""
    compared: list[Compared] = field(default_factory=list)
    """Per answer; empty where the answers are compared with one another by `rewards`. Read where a KL penalty or a discount
    changes rewards before they are normalised."""

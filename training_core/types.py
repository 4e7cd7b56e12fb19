"""Types shared between modules of the language-model part.

A group is the K candidates sampled from one state: (task, turn, role). There are no tensors here: plain lists are
cheap to pickle, and reports and learners both read them.
"""

from collections.abc import Mapping, Sequence
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
    """The key of sampling noise, which never depends on a worker or on a position in a batch."""

    seed: int
    stream: int
    """A number of training_core.seeding.NoiseStream."""
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
    """Number of tokens at the end of `token_ids` that the candidate has already generated; its answer continues after them."""
    grammar: str = ""
    """Grammar of the answers (llm/generation/grammars.py); empty: any text."""
    rid: str = ""
    """Identical for all prompts of one conversation, so that an engine may cache its keys and values. Empty: nothing is cached."""


class GrammarSpan(NamedTuple):
    """Tokens of an answer that were sampled under one grammar, from its beginning."""

    start: int
    end: int
    """Index of the first token behind them."""
    grammar: str


@dataclass(frozen=True)
class Answer:
    """The answer to a prompt; the lists have one entry per token.

    Usually one sampled answer. It may contain text that was not sampled (a tool's result, the next question):
    loss_mask excludes these tokens, their logprobs are 0.0 and their versions NOT_SAMPLED.
    """

    token_ids: list[int]
    logprobs: list[float]
    """Logprobs under the sampling distribution, after temperature and truncation."""
    versions: list[int]
    stop_reason: StopReason
    text: str
    loss_mask: list[bool] | None = None
    """Which tokens are trained on; None for all."""
    grammars: tuple[GrammarSpan, ...] = ()
    """In the order of their tokens; empty if every token could be sampled everywhere."""

    @property
    def had_no_room(self) -> bool:
        """Whether its prompt left no room for a token in the model's context."""
        return not self.token_ids and self.stop_reason == "length"

    @property
    def trained_tokens(self) -> int:
        """Number of trained tokens."""
        return len(self.token_ids) if self.loss_mask is None else sum(self.loss_mask)

    def learnt(self, values: Sequence[Item]) -> list[Item]:
        """The entries of `values`, one per token, whose tokens are trained on."""
        return list(values) if self.loss_mask is None else list(compress(values, self.loss_mask))

    def spread(self, learnt: Sequence[Item], other: Item) -> list[Item]:
        """The inverse of `learnt`: one entry per token, `other` for tokens that are not trained on."""
        entries = iter(learnt)
        return [next(entries) if trained else other for trained in self.loss_mask or [True] * len(learnt)]


@dataclass
class Candidate:
    """An answer with its reward."""

    answer: Answer
    local_reward: float = 0.0
    team_reward: float = 0.0
    reward: float = 0.0
    """team_weight * team_reward + local_weight * local_reward, less the penalty for an overlong answer."""
    value: float | None = None
    """Estimated return of the role from this answer on: `reward` and the mean of continuations. None compares rewards."""
    advantage: float | None = None
    scored: bool = True
    """Whether the answer has a reward. One without is in no group."""
    messages: list[dict[str, str]] = field(default_factory=list)
    """What the answer consists of, if it is that of several calls or calls tools: `role`, `content` and `tool_calls` as text."""

    @property
    def compared(self) -> float:
        """What it is compared by: its value, or its reward if it has none."""
        return self.reward if self.value is None else self.value


@dataclass
class Turn:
    """One turn of one agent."""

    index: int
    role: str
    policy: str
    messages: list[Message]
    prompt_ids: list[int]
    candidates: list[Candidate]
    executed: int
    board: dict[str, Any] | None = None
    compared: bool = True
    """Whether its candidates are in a group. False before the point at which siblings part, and where new weights arrived
    while the candidates were continued.
    """

    @property
    def scored(self) -> list[Candidate]:
        """The candidates that have a reward."""
        return [candidate for candidate in self.candidates if candidate.scored]

    @property
    def is_trained(self) -> bool:
        """Whether an answer has tokens to train on."""
        return any(candidate.answer.trained_tokens for candidate in self.candidates)


@dataclass(frozen=True)
class Stage:
    """A time span of an episode, in seconds since the epoch."""

    kind: Literal["generate", "environment"]
    """What the episode waited for: a policy, or its environment (including its tools)."""
    start: float
    end: float
    role: str = ""
    policy: str = ""
    versions: tuple[int, int] | None = None
    """Oldest and newest policy version of the generated tokens."""


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
    """Success by role, if the environment reports it in addition to the team's."""
    failed: bool = False
    error: str = ""
    overlong: str = ""
    """Why it ended early, if a prompt left no room for an answer in the model's context; otherwise empty. What the roles
    earned until then counts.
    """
    probe: bool = False
    task_number: int | None = None
    """Number with which the environment starts the task again; None if no environment of the run did."""
    reward_timeouts: int | None = None
    """Number of answers whose reward function timed out; None if no reward function was called."""
    unscored: int = 0
    """Number of answers without a reward: the reward function returned None."""
    siblings: str = ""
    """Shared name of a task's episodes that are compared as wholes; empty if candidates of a turn are compared."""
    turn_discount: float | None = None
    """Siblings are compared per turn: a turn's return is its reward plus this times the return of its role's next
    turn. None compares a role's reward in the whole episode.
    """
    started: float = 0.0
    ended: float = 0.0
    final_board: dict[str, Any] | None = None
    stages: list[Stage] = field(default_factory=list)
    """In chronological order."""
    silent_rewards: dict[str, float] = field(default_factory=dict)
    """Rewards of roles that had not answered when they earned them, by role. They count, and no turn has them."""
    copied_turns: int = 0
    """Number of its first turns that were sampled once, in an episode of which this one is a branch."""
    continued_tokens: int = 0
    """Tokens that were sampled for it and are in no turn: continuations of its candidates, or an opening that was too short."""
    lost_groups: int = 0
    """Number of groups that are left out: new weights arrived while their candidates were continued, or the continuations failed."""
    team_return: float = 0.0
    """Sum of the team's rewards of the executed answers, each once."""
    reward_parts: dict[str, dict[str, float]] = field(default_factory=dict)
    """Sums of the parts of rewards that the environment, a reward function or a rubric reports, by role and by name."""
    failed_role: str = ""
    """Role that answered last, or was to answer, when the episode failed or its agent raised; empty if it is not known."""
    agent_error: str = ""
    """Error of an agent that counts as workflow.failure_reward; the episode did not fail."""

    def fail(self, error: str, role: str = "") -> None:
        """Mark the episode as failed, with the role whose turn it was if that is known."""
        self.failed, self.error, self.outcome = True, error, f"failed: {error}"[:200]
        self.failed_role = role or (self.turns[-1].role if self.turns else "")

    def add_reward_parts(self, role: str, parts: Mapping[str, float]) -> None:
        """Add parts of a role's reward."""
        own = self.reward_parts.setdefault(role, {}) if parts else {}
        for name, value in parts.items():
            own[name] = own.get(name, 0.0) + value

    @property
    def sampled_turns(self) -> Sequence[Turn]:
        """The turns that were sampled for this episode."""
        return self.turns[self.copied_turns :]

    @property
    def episode_return(self) -> float:
        """Sum of all roles' rewards."""
        return sum(turn.candidates[turn.executed].reward for turn in self.turns) + sum(
            self.silent_rewards.values()
        )

    def role_return(self, role: str) -> float:
        """One role's part of the episode return."""
        own = (turn.candidates[turn.executed].reward for turn in self.turns if turn.role == role)
        return sum(own, self.silent_rewards.get(role, 0.0))


class Compared(NamedTuple):
    """An answer's reward as it is compared, before normalisation."""

    unit: int
    """The answer itself, or its role's episode if whole episodes are compared: answers of one unit share a reward."""
    group: int
    """The group of units that are compared with each other, numbered over the policy's batch from 0."""
    reward: float
    """Reshaped reward of the unit."""


@dataclass(frozen=True)
class Group:
    """A group in the form that a learner trains on: one prompt, K answers with advantages."""

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
    """Maximum answer length in tokens: the divisor of a constant average."""
    compared: list[Compared] = field(default_factory=list)
    """One per answer; empty if the answers are compared with each other by `rewards`. Used if a KL penalty or a
    discount changes rewards before normalisation.
    """
    role: str = ""

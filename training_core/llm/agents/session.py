"""One episode that an agent plays by calls: its conversations, its reward and its end, for every server that plays episodes.

An episode whose agent ends with an error failed, or has the reward of workflow.failure_reward.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from training_core.errors import RequestRefused, is_infrastructure
from training_core.llm.agents.conversation import Call, Conversation
from training_core.llm.agents.messages import shorten, transcript_messages
from training_core.llm.environments.host import describe
from training_core.llm.generation.base import Generate, SamplingSettings
from training_core.llm.generation.rendering import Renderer
from training_core.llm.serving.batching import EpisodeNoise
from training_core.types import Candidate, Episode, Message, NoiseKey, Stage, Turn
from training_core.versions import version_span

_UNREWARDED = "the agent ended without a reward"


@dataclass(frozen=True)
class PolicyClient:
    """How one role generates in an episode."""

    policy: str
    generate: Generate
    settings: SamplingSettings
    renderer: Renderer
    constrains: bool = False
    """Whether the policy's engine samples under a grammar."""

    @property
    def samples_grammars(self) -> bool:
        """Whether answers can be sampled under a grammar: by the engine, with the model's tokens."""
        return self.constrains and self.renderer.samples_grammars


@dataclass(frozen=True)
class SessionSpec:
    """An episode to play."""

    episode: Episode
    data: dict[str, Any]
    """The task as passed to the program that plays it."""
    clients: Mapping[str, PolicyClient]
    """By role, in the team's order; empty if it is not played by calls of the gateway."""
    noise: tuple[int, int, int, int]
    """Run seed, stream, iteration, index of the episode among those of its kind."""


@dataclass
class Outcome:
    """The outcome of an episode as its agent reported it."""

    reward: float = 0.0
    """Reward of every role that spoke, in addition to rewards of single calls."""
    rewarded: bool = False
    by_role: dict[str, float] = field(default_factory=dict)
    success: bool | None = None
    text: str = ""
    error: str = ""
    failure: str = ""
    """Error of an episode that counts as one with the reward of workflow.failure_reward."""
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    """Parts of rewards by role and by name, for curves only."""


@dataclass
class Rewards:
    """What an agent may return: rewards by role, with their parts."""

    by_role: dict[str, float]
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    """By role and by name, for curves only."""


class Session:
    """An open episode. The server calls it from one thread; `done` signals to others that it was closed."""

    def __init__(self, spec: SessionSpec, *, stores_calls: bool = True) -> None:
        """Without `stores_calls` it is an address to ask at: every call is a conversation of its own."""
        self.spec = spec
        self.key = f"ep-{secrets.token_urlsafe(18)}"
        """Identifies the episode and authorises its holder: part of its URL, or its API key."""
        self.outcome = Outcome()
        self.done: Future[Outcome] = Future()
        self.conversations = {role: Conversation(client.renderer) for role, client in spec.clients.items()}
        self._stores_calls = stores_calls
        self.returns_token_ids = not stores_calls
        """Whether every answer contains its token ids, logprobs and versions, even if not requested."""
        self.overlong = ""
        """Refusal of the latest call, if its prompt left no room for an answer: an agent may shorten it and continue."""
        self.accepted_at = 0.0
        """When an agent accepted it, in seconds since the epoch; 0 before."""
        self._number = 0
        self._noise = EpisodeNoise(*spec.noise)

    def role_of(self, model: str) -> str:
        """The role that a request's `model` names; with a single role, any name is accepted. Raises RequestRefused."""
        roles = list(self.conversations)
        if model in self.conversations:
            return model
        if len(roles) == 1 or model in ("", "default"):
            return roles[0]
        raise RequestRefused(
            f"there is no model {model!r}; use a role: {', '.join(roles)}", 404, "model_not_found"
        )

    def conversation(self, role: str) -> Conversation:
        """The conversation of a role's next call."""
        return (
            self.conversations[role] if self._stores_calls else Conversation(self.spec.clients[role].renderer)
        )

    def accept(self) -> None:
        """Mark the episode as accepted by an agent."""
        self.accepted_at = self.spec.episode.started = time.time()

    def next_call(self) -> tuple[int, str]:
        """Number of a new call, and a name for its id. Raises RequestRefused if the episode is closed."""
        if self.done.done():
            raise RequestRefused("this episode is closed; open another one", 409, "episode_closed")
        self._number += 1
        return self._number - 1, secrets.token_hex(12)

    def noise(self, role: str, prompt_ids: Sequence[int], seed: int | None) -> NoiseKey:
        """The noise key of a call; see EpisodeNoise. A `seed` of the request replaces it."""
        if seed is not None:
            return NoiseKey(seed, self.spec.noise[1], 0, 0, 0, 0)
        return self._noise.key(list(self.conversations).index(role), prompt_ids)

    def calls(self) -> list[tuple[str, Call]]:
        """All calls by number, each with its role."""
        calls = [
            (role, call) for role, conversation in self.conversations.items() for call in conversation.calls
        ]
        return sorted(calls, key=lambda item: item[1].number)

    def reward(self, report: Mapping[str, Any]) -> None:
        """Record rewards: `reward` (of all roles that spoke), `rewards` (by call id or role), `parts` of them (by role and name),
        `success`, `outcome`. A repeated total replaces the previous one. Raises RequestRefused.
        """
        if self.done.done():
            raise RequestRefused(
                "this episode is closed; its reward cannot change; report rewards before closing it",
                409,
                "episode_closed",
            )
        calls = {call.id: call for _, call in self.calls()}
        reward_parts = report.get("rewards") or {}
        if not isinstance(reward_parts, Mapping):
            raise RequestRefused("rewards must be an object: rewards by call id or by role")
        if not isinstance(report.get("success"), bool | None):
            raise RequestRefused(f"success must be true or false, not {shorten(report['success'])}")
        unknown = [name for name in reward_parts if name not in calls and name not in self.conversations]
        if unknown:
            raise RequestRefused(
                f"rewards: {shorten(unknown[0])} is neither a call of this episode nor a role"
            )
        parts = self._parts_of(report.get("parts") or {})
        total = finite(report["reward"]) if report.get("reward") is not None else None
        values = {
            name: finite(value) for name, value in reward_parts.items()
        }  # all are checked before one is stored
        if total is not None:
            self.outcome.reward = total
        for name, value in values.items():
            if name in calls:
                calls[name].reward = value
            else:
                self.outcome.by_role[name] = value
        self.outcome.parts |= parts
        self.outcome.rewarded = self.outcome.rewarded or bool(reward_parts) or total is not None
        self.outcome.success = report.get("success", self.outcome.success)
        self.outcome.text = str(report.get("outcome") or self.outcome.text)[:200]

    def _parts_of(self, parts: Any) -> dict[str, dict[str, float]]:
        """Parts of rewards as numbers. Raises RequestRefused."""
        if not isinstance(parts, Mapping) or not all(isinstance(own, Mapping) for own in parts.values()):
            raise RequestRefused("parts must be an object: numbers by role and by name")
        if unknown := [role for role in parts if role not in self.conversations]:
            raise RequestRefused(f"parts: there is no role {shorten(unknown[0])}")
        return {
            role: {str(name): finite(value) for name, value in own.items()} for role, own in parts.items()
        }

    def close(self, error: str = "") -> None:
        """End the episode; with an `error`, or without a reward, it counts as failed. Closing twice has no effect."""
        if not self.done.done():
            self.outcome.error = self.without_key(error) or ("" if self.outcome.rewarded else _UNREWARDED)
            self.done.set_result(self.outcome)

    def without_key(self, text: str) -> str:
        """A text of the agent for the transcript: without the key, which clients quote as part of an address."""
        return text.replace(self.key, "<key>")


class SessionRegistry:
    """Thread-safe: a workflow opens and withdraws sessions, the server looks them up and assigns them to agents."""

    def __init__(self, token: str) -> None:
        self.token = token
        """Token that an external agent needs to take an episode."""
        self._lock = threading.Lock()
        self._open: dict[str, Session] = {}
        self._offered: deque[Session] = deque()

    def open(self, session: Session) -> None:
        """Open a session for the holder of its key."""
        with self._lock:
            session.accept()
            self._open[session.key] = session

    def offer(self, sessions: Sequence[Session]) -> None:
        """Offer sessions to external agents, in order."""
        with self._lock:
            self._offered.extend(sessions)

    def take(self) -> Session | None:
        """Open and return the next waiting session; None if there is none."""
        with self._lock:
            if not self._offered:
                return None
            session = self._offered.popleft()
            session.accept()
            self._open[session.key] = session
            return session

    def find(self, key: str) -> Session:
        """The open episode of this key. Raises RequestRefused."""
        with self._lock:
            session = self._open.get(key)
        if session is None:
            raise RequestRefused(
                "no open episode has this key; use the episode's base_url, or its key as the API key",
                401,
                "invalid_api_key",
            )
        return session

    def withdraw(self, sessions: Sequence[Session]) -> None:
        """Close and remove sessions."""
        with self._lock:
            keys = {session.key for session in sessions}
            self._offered = deque(session for session in self._offered if session.key not in keys)
            for session in sessions:
                self._open.pop(session.key, None)
        for session in sessions:
            session.close("the agent did not close the episode")

    def counts(self) -> dict[str, int]:
        """Number of open episodes, and of those that wait for an agent."""
        with self._lock:
            return {"open": len(self._open), "waiting": len(self._offered)}


def finite(value: Any) -> float:
    """A reward as a number. Raises RequestRefused."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RequestRefused(f"a reward must be a number, not {shorten(value)}") from error
    if not abs(number) < float("inf"):
        raise RequestRefused(f"a reward must be a finite number, not {shorten(value)}")
    return number


def write_episode(session: Session, success_at: float, weights: tuple[float, float] = (1.0, 1.0)) -> Episode:
    """The episode that a session played: a turn per segment, whose answer has all its calls under a loss mask; or,
    with a turn_discount, a turn per call.

    A role's total reward is stored on its last trained turn as the team's reward, and rewards of calls on their turns as
    its own; `weights` are the algorithm's weights of both. A role that did not answer has its reward in `silent_rewards`. An
    episode that failed, or has no reward, is not compared with its siblings and not trained on.
    """
    episode, outcome = session.spec.episode, session.outcome
    total = sum(call.reward for _, call in session.calls())
    played = _calls(session) if episode.turn_discount is not None else _segments(session)
    last = {turn.role: turn for turn in sorted(played, key=lambda turn: turn.is_trained)}
    for turn in played:
        team = outcome.reward + outcome.by_role.get(turn.role, 0.0) if last[turn.role] is turn else 0.0
        for candidate in turn.candidates:
            candidate.team_reward = team
            candidate.reward = weights[0] * team + weights[1] * candidate.local_reward
    episode.turns += played
    silent = {role: reward for role, reward in outcome.by_role.items() if role not in last}
    episode.silent_rewards = {role: weights[0] * reward for role, reward in silent.items()}
    episode.stages = list(_stages(session))
    episode.ended, episode.overlong = time.time(), session.overlong
    for role, parts in outcome.parts.items():
        episode.add_reward_parts(role, parts)
    total += outcome.reward + sum(outcome.by_role.values())
    spoke = [role for role, _ in session.calls()]
    if outcome.failure:
        episode.agent_error, episode.failed_role = outcome.failure, spoke[-1]
    if outcome.error:
        episode.fail(outcome.error, spoke[-1] if spoke else "")
    else:
        episode.success = total >= success_at if outcome.success is None else bool(outcome.success)
        episode.outcome = outcome.text or f"reward {total:g}"
    return episode


def _segments(session: Session) -> list[Turn]:
    """A turn for each segment, with the rewards of its calls."""
    segments = [
        (role, segment)
        for role, conversation in session.conversations.items()
        for segment in conversation.segments()
    ]
    segments.sort(key=lambda item: item[1].calls[-1].number)
    return _turns(
        session,
        (
            (
                role,
                segment.messages,
                segment.prompt_ids,
                [Candidate(segment.answer, segment.reward, messages=segment.dialogue)],
            )
            for role, segment in segments
        ),
    )


def _calls(session: Session) -> list[Turn]:
    """A turn for each call, with its used choices as candidates of equal reward, of which the first one is executed; and
    one for its unused choices.
    """
    used = {role: conversation.used_choices() for role, conversation in session.conversations.items()}
    return _turns(
        session,
        (
            (role, transcript_messages(call.messages), call.prompt_ids, candidates)
            for role, call in session.calls()
            for candidates in _candidates(call, used[role][call.id])
            if candidates
        ),
    )


def _turns(
    session: Session, parts: Iterable[tuple[str, list[Message], list[int], list[Candidate]]]
) -> list[Turn]:
    """Turns of (role, messages, prompt ids, candidates) with their indices. One without trained tokens is no turn of the
    episode: it has the index of the one before.
    """
    turns, index = [], -1
    for role, messages, prompt_ids, candidates in parts:
        turn = Turn(0, role, session.spec.clients[role].policy, messages, prompt_ids, candidates, 0)
        index += turn.is_trained
        turn.index = max(index, 0)
        turns.append(turn)
    return turns


def _candidates(call: Call, used: Sequence[int]) -> tuple[list[Candidate], list[Candidate]]:
    """A call's used choices and its unused ones."""
    unused = [
        replace(answer, loss_mask=[False] * len(answer.token_ids))
        for choice, answer in enumerate(call.answers)
        if choice not in used
    ]
    return [Candidate(call.answers[choice], call.reward) for choice in used], list(map(Candidate, unused))


def _stages(session: Session) -> list[Stage]:
    """What the episode waited for: its calls, and the agent in between."""
    stages: list[Stage] = []
    now = session.accepted_at
    for role, call in sorted(session.calls(), key=lambda item: item[1].started):
        if call.started > now:
            stages.append(Stage("environment", now, call.started))
        versions = version_span(version for answer in call.answers for version in answer.versions)
        policy = session.spec.clients[role].policy
        stages.append(Stage("generate", call.started, call.ended, role, policy, versions))
        now = max(now, call.ended)
    return stages


@contextmanager
def failures_rewarded(session: Session, reward: float | None) -> Iterator[None]:
    """End the episode with `reward` if an agent raises here due to what the policy answered.

    Raises the agent's exception if `reward` is None, if the agent has received no answer, and if the exception is of the
    infrastructure: a time-out, a connection, a server, memory, a missing module.
    """
    try:
        yield
    except Exception as error:
        if reward is None or not _answered(session) or is_infrastructure(error):
            raise
        end_failed(session, describe(error), reward)


def end_failed(session: Session, error: str, reward: float | None) -> None:
    """Close an episode with an error. With a `reward`, one with answers counts as an episode of this reward and no other."""
    if session.done.done():
        return
    if reward is None or not _answered(session):
        session.close(error)
        return
    for _, call in session.calls():
        call.reward = 0.0
    text = session.without_key(error)
    session.outcome = Outcome(reward, rewarded=True, success=False, text=text[:200], failure=text)
    session.close()


def _answered(session: Session) -> bool:
    return any(call.received for _, call in session.calls())


class AgentGateway(Protocol):
    """An OpenAI-compatible server in front of the policies. Thread-safe."""

    renderers: Mapping[str, Renderer]
    """Renderer by policy."""

    def open(self, session: Session) -> str:
        """Allow the holder of the session's key to play it; return its base URL."""
        ...

    def offer(self, sessions: Sequence[Session]) -> None:
        """Assign these, in order, to agents that request an episode."""
        ...

    def withdraw(self, sessions: Sequence[Session]) -> None:
        """Remove them. Raises errors that occurred behind the gateway and are not caused by an agent."""
        ...

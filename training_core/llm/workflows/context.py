"""The context in which a workflow plays: environments, engines of policies, and rendering of observations as prompts."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any

from training_core.config.run import RunConfig
from training_core.config.team import Role
from training_core.importing import made
from training_core.llm.agents.gateway import AgentGateway
from training_core.llm.environments.host import EnvironmentPool, SlotView
from training_core.llm.external.source import RolloutSource
from training_core.llm.generation.base import Generate as Generate
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.workflows.conversation import Conversations
from training_core.types import (
    NOT_SAMPLED,
    Answer,
    Candidate,
    Episode,
    Message,
    NoiseKey,
    Prompt,
    Stage,
    Turn,
)

if TYPE_CHECKING:
    from training_core.llm.workflows.served_policies import ServedPolicies  # which evaluates like workflows

Render = Callable[[Sequence[Message]], list[int]]
"""Chat messages -> prompt token ids, with the generation prompt."""


@dataclass(frozen=True)
class Table:
    """Everything that a play needs in addition to the tasks."""

    config: RunConfig
    pool: EnvironmentPool
    generate: Mapping[str, Generate]
    """Engine call by policy."""
    render: Mapping[str, Render]
    """Renderer by policy."""
    attempt: int
    iteration: int
    first: int = 0
    """Index of the first episode in its iteration, because tasks may be played in several waves."""
    gateway: AgentGateway | None = None
    """The gateway through which custom agents reach the policies; only for agent workflows."""
    tokenizers: Mapping[str, Any] = field(default_factory=dict)
    """Tokenizer by policy."""
    outside: RolloutSource | None = None
    """The source of external rollouts; only for the rollout_buffer workflow."""
    served: "ServedPolicies | None" = None
    """The server that external generators call, if it is the run itself."""
    side_by_side: bool = False
    """Whether policies have separate processes, so that several can generate at the same time."""
    version: Callable[[str], int] = lambda policy: 0
    """Current version of a policy's weights, by its name."""


@dataclass(frozen=True)
class Question:
    """A role's turn in some slots, before it is sent to its policy."""

    role: str
    began: float
    """When the slots' episodes reached this turn, in seconds since the epoch."""
    slots: list[int]
    views: list[SlotView]
    messages: list[list[Message]]
    prompts: list[Prompt]
    settings: SamplingSettings


@dataclass(frozen=True)
class Asked:
    """One slot in one role's turn: the prompt and its answers."""

    slot: int
    view: SlotView
    messages: list[Message]
    prompt: Prompt
    answers: list[Answer]
    sent: float
    """When the prompt was sent, in seconds since the epoch."""
    answered: float


def question(
    table: Table,
    role: str,
    keys: Mapping[int, NoiseKey],
    count: int,
    settings: SamplingSettings,
    talks: Conversations | None = None,
) -> tuple[Question, dict[int, str]]:
    """The prompts of a role in the slots of `keys`, for `count` answers each; and the errors of slots whose
    environment raised.

    Slots in which it is not this role's turn, according to the environment, are in neither.
    """
    began = time.time()
    policy = table.config.team.roles[role].policy
    views = table.pool.observe(list(keys), role)
    errors = {slot: view.error for slot, view in views.items() if view.error}
    heard = [slot for slot in keys if slot not in errors and not views[slot].silent]
    openings = [opening(table.config.team.roles[role], views[slot]) for slot in heard]
    render = table.render[policy]
    seen = [
        talks.prompt(slot, role, first, views[slot], render) if talks else (first, render(first))
        for slot, first in zip(heard, openings, strict=True)
    ]
    prompts = [
        Prompt(ids, count, keys[slot], rid=_conversation(keys[slot]) if talks else "")
        for slot, (_, ids) in zip(heard, seen, strict=True)
    ]
    shown = [views[slot] for slot in heard]
    return Question(role, began, heard, shown, [told for told, _ in seen], prompts, settings), errors


def ask(table: Table, questions: Sequence[Question]) -> list[list[Asked]]:
    """Let roles speak: answers per question. Noise is keyed, so concurrent generation does not change the answers."""
    by_policy: dict[str, list[int]] = {}
    for place, each in enumerate(questions):
        by_policy.setdefault(table.config.team.roles[each.role].policy, []).append(place)
    asked: dict[int, list[Asked]] = {}

    def say(policy: str) -> None:
        for place in by_policy[policy]:
            asked[place] = _answered(table.generate[policy], questions[place])

    if table.side_by_side and len(by_policy) > 1:
        with ThreadPoolExecutor(max_workers=len(by_policy)) as threads:
            list(threads.map(say, by_policy))
    else:
        for policy in by_policy:
            say(policy)
    return [asked[place] for place in range(len(questions))]


def _answered(generate: Generate, question: Question) -> list[Asked]:
    sent = time.time()
    answers = generate(question.prompts, question.settings) if question.prompts else []
    answered = time.time()
    columns = question.slots, question.views, question.messages, question.prompts, answers
    return [Asked(*row, sent, answered) for row in zip(*columns, strict=True)]


def _conversation(key: NoiseKey) -> str:
    """The common name of all prompts of a role in one episode."""
    return "-".join(map(str, key._replace(turn=0)))


def opening(role: Role, view: SlotView) -> list[Message]:
    """A role's messages, rewritten by its custom agent if it has one."""
    messages = chat(role, view)
    return (
        list(made(role.agent.path, role.agent.args, "team.roles")(messages)) if role.agent.path else messages
    )


def chat(role: Role, view: SlotView) -> list[Message]:
    """The messages that an agent sees: its role's system prompt replaces the environment's, followed by the examples."""
    seen: Sequence[Message] = view.messages or [{"role": "user", "content": view.observation}]
    if not role.prompt and not role.examples:
        return list(seen)
    system = [each for each in seen if each["role"] == "system"]
    if role.prompt:
        system = [{"role": "system", "content": role.prompt}]
    speakers = cycle(("user", "assistant"))
    shown = [
        Message(role=speaker, content=text) for speaker, text in zip(speakers, role.examples, strict=False)
    ]
    return [*system, *shown, *(each for each in seen if each["role"] != "system")]


def record_turn(
    episode: Episode,
    table: Table,
    index: int,
    role: str,
    asked: Asked,
    candidates: list[Candidate],
    executed: int,
) -> None:
    """Add a turn to an episode."""
    policy = table.config.team.roles[role].policy
    ids = asked.prompt.token_ids
    episode.turns.append(
        Turn(index, role, policy, asked.messages, ids, candidates, executed, asked.view.board)
    )


def record_voice(episode: Episode, table: Table, role: str, began: float, asked: Asked) -> None:
    """Record what the episode waited for from `began` until a role had answered.

    For roles that speak at the same time, a later role is charged only with its additional time.
    """
    known = [version for answer in asked.answers for version in answer.versions if version != NOT_SAMPLED]
    policy = table.config.team.roles[role].policy
    versions = (min(known), max(known)) if known else None
    record_environment(episode, began, asked.sent)
    start = max(asked.sent, episode.stages[-1].end if episode.stages else 0.0)
    episode.stages.append(Stage("generate", start, max(start, asked.answered), role, policy, versions))


def record_environment(episode: Episode, start: float, end: float) -> None:
    """Record that the episode waited for its environment; two adjacent spans are merged."""
    if episode.stages:
        last = episode.stages[-1]
        start = episode.stages.pop().start if last.kind == "environment" else max(start, last.end)
    if end < start:  # it waited for a role that was called at the same time
        return
    episode.stages.append(Stage("environment", start, end))


def close_episode(episode: Episode, view: SlotView, now: float) -> None:
    """Record how an episode ended."""
    episode.outcome, episode.success, episode.final_board = view.outcome, view.success, view.board
    episode.role_success = dict(view.role_success)
    episode.ended = now
    if view.error:
        fail_episode(episode, view.error, now)


def fail_episode(episode: Episode, error: str, now: float) -> None:
    """The environment raised: the episode ends and counts as failed."""
    episode.failed, episode.error, episode.outcome, episode.ended = True, error, f"failed: {error}"[:200], now

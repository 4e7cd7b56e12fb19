"""What a workflow plays at: the environments, the policies' voices, and how observations become prompts."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from training_core.config.run import RunConfig
from training_core.config.team import Role
from training_core.importing import made
from training_core.llm.agents.gateway import AgentGateway
from training_core.llm.environments.host import EnvironmentPool, SlotView
from training_core.llm.generation.base import Generate as Generate
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.outside.source import RolloutSource
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
    from training_core.llm.outside.served_policies import ServedPolicies  # which evaluates as workflows do

Render = Callable[[Sequence[Message]], list[int]]
"""Chat messages -> prompt token ids, with the generation prompt."""


@dataclass(frozen=True)
class Table:
    """Everything that play needs besides the tasks."""

    config: RunConfig
    pool: EnvironmentPool
    generate: Mapping[str, Generate]
    """By policy."""
    render: Mapping[str, Render]
    """By policy."""
    attempt: int
    iteration: int
    first: int = 0
    """Number of the first episode in its iteration, whose tasks may be played in several waves."""
    gateway: AgentGateway | None = None
    """Where agents of one's own reach the policies; only for workflows of such agents."""
    tokenizers: Mapping[str, Any] = field(default_factory=dict)
    """By policy."""
    outside: RolloutSource | None = None
    """Where rollouts from outside come from; only for workflows of such."""
    served: "ServedPolicies | None" = None
    """What generators outside ask for answers, where that is the run itself."""


@dataclass(frozen=True)
class Asked:
    """One slot at one role's turn: the prompt that was sent and the answers that came."""

    slot: int
    view: SlotView
    messages: list[Message]
    prompt: Prompt
    answers: list[Answer]
    sent: float
    """When the prompt was sent, seconds since the epoch."""
    answered: float


def ask(
    table: Table,
    role: str,
    keys: Mapping[int, NoiseKey],
    count: int,
    settings: SamplingSettings,
    talks: Conversations | None = None,
) -> tuple[list[Asked], dict[int, str]]:
    """Let a role speak in the slots of `keys`, `count` answers each; and the errors of slots whose environment raised.

    Slots whose environment says that it is not this role's turn are in neither.
    """
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
    prompts = [Prompt(ids, count, keys[slot]) for slot, (_, ids) in zip(heard, seen, strict=True)]
    sent = time.time()
    answers = table.generate[policy](prompts, settings) if prompts else []
    answered = time.time()
    asked = [
        Asked(slot, views[slot], messages, prompt, given, sent, answered)
        for slot, (messages, _), prompt, given in zip(heard, seen, prompts, answers, strict=True)
    ]
    return asked, errors


def opening(role: Role, view: SlotView) -> list[Message]:
    """What a role is asked, rewritten by its agent where it has one of its own."""
    messages = chat(role.prompt, view)
    return (
        list(made(role.agent.path, role.agent.args, "team.roles")(messages)) if role.agent.path else messages
    )


def chat(system: str, view: SlotView) -> list[Message]:
    """The messages that an agent sees: its own system prompt takes the place of the environment's."""
    seen: Sequence[Message] = view.messages or [{"role": "user", "content": view.observation}]
    if not system:
        return list(seen)
    return [{"role": "system", "content": system}, *(each for each in seen if each["role"] != "system")]


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
    """Note whom the episode waited for until a role had answered, from `began` on."""
    known = [version for answer in asked.answers for version in answer.versions if version != NOT_SAMPLED]
    policy = table.config.team.roles[role].policy
    versions = (min(known), max(known)) if known else None
    record_environment(episode, began, asked.sent)
    episode.stages.append(Stage("generate", asked.sent, asked.answered, role, policy, versions))


def record_environment(episode: Episode, start: float, end: float) -> None:
    """Note that the episode waited for its environment; two such stretches that follow each other are one."""
    if episode.stages:
        last = episode.stages[-1]
        start = episode.stages.pop().start if last.kind == "environment" else max(start, last.end)
    episode.stages.append(Stage("environment", start, end))


def close_episode(episode: Episode, view: SlotView, now: float) -> None:
    """Note how an episode ended."""
    episode.outcome, episode.success, episode.final_board = view.outcome, view.success, view.board
    episode.ended = now
    if view.error:
        fail_episode(episode, view.error, now)


def fail_episode(episode: Episode, error: str, now: float) -> None:
    """The environment raised: the episode is data, and ends here."""
    episode.failed, episode.error, episode.outcome, episode.ended = True, error, f"failed: {error}"[:200], now

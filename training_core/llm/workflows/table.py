"""What a workflow plays at: the environments, the policies' voices, and how observations become prompts."""

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
    side_by_side: bool = False
    """Whether policies have processes of their own, so that several may speak at the same time."""
    version: Callable[[str], int] = lambda policy: 0
    """Version of a policy's weights as they are now, by its name."""


@dataclass(frozen=True)
class Question:
    """A role's turn in some slots, about to be put to its policy."""

    role: str
    began: float
    """When the slots' episodes came to this turn, seconds since the epoch."""
    slots: list[int]
    views: list[SlotView]
    messages: list[list[Message]]
    prompts: list[Prompt]
    settings: SamplingSettings


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


def question(
    table: Table,
    role: str,
    keys: Mapping[int, NoiseKey],
    count: int,
    settings: SamplingSettings,
    talks: Conversations | None = None,
) -> tuple[Question, dict[int, str]]:
    """What a role is asked in the slots of `keys`, for `count` answers each; and the errors of slots whose environment raised.

    Slots whose environment says that it is not this role's turn are in neither.
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
    """Let roles speak: answers per question. Noise is keyed, so policies that speak at the same time say the same."""
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
    """A name for all prompts of a role in one episode."""
    return "-".join(map(str, key._replace(turn=0)))


def opening(role: Role, view: SlotView) -> list[Message]:
    """What a role is asked, rewritten by its agent where it has one of its own."""
    messages = chat(role, view)
    return (
        list(made(role.agent.path, role.agent.args, "team.roles")(messages)) if role.agent.path else messages
    )


def chat(role: Role, view: SlotView) -> list[Message]:
    """The messages that an agent sees: its role's system prompt takes the place of the environment's, examples follow it."""
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
    """Note whom the episode waited for until a role had answered, from `began` on.

    Of roles that speak at the same time the later ones are waited for only as long as they take longer.
    """
    known = [version for answer in asked.answers for version in answer.versions if version != NOT_SAMPLED]
    policy = table.config.team.roles[role].policy
    versions = (min(known), max(known)) if known else None
    record_environment(episode, began, asked.sent)
    start = max(asked.sent, episode.stages[-1].end if episode.stages else 0.0)
    episode.stages.append(Stage("generate", start, max(start, asked.answered), role, policy, versions))


def record_environment(episode: Episode, start: float, end: float) -> None:
    """Note that the episode waited for its environment; two such stretches that follow each other are one."""
    if episode.stages:
        last = episode.stages[-1]
        start = episode.stages.pop().start if last.kind == "environment" else max(start, last.end)
    if end < start:  # it waited for a role that was asked at the same time
        return
    episode.stages.append(Stage("environment", start, end))


def close_episode(episode: Episode, view: SlotView, now: float) -> None:
    """Note how an episode ended."""
    episode.outcome, episode.success, episode.final_board = view.outcome, view.success, view.board
    episode.role_success = dict(view.role_success)
    episode.ended = now
    if view.error:
        fail_episode(episode, view.error, now)


def fail_episode(episode: Episode, error: str, now: float) -> None:
    """The environment raised: the episode is data, and ends here."""
    episode.failed, episode.error, episode.outcome, episode.ended = True, error, f"failed: {error}"[:200], now

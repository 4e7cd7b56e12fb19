"""The context in which a workflow plays: environments, engines of policies, and rendering of observations as prompts."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from training_core.config.rollout import MultiTurn
from training_core.config.run import RunConfig
from training_core.config.team import Role
from training_core.importing import made
from training_core.llm.agents.session import AgentGateway
from training_core.llm.environments.host import EnvironmentPool, SlotView
from training_core.llm.external.source import ExternalWait, RolloutSource
from training_core.llm.generation.base import Generate as Generate
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Candidate, Episode, Message, NoiseKey, Prompt, Stage, Turn
from training_core.versions import version_span

if TYPE_CHECKING:
    from training_core.llm.workflows.rollout_buffer import ServedPolicies  # which evaluates like workflows


NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


class Render(Protocol):
    """Chat messages -> prompt token ids, with the generation prompt."""

    def __call__(
        self,
        messages: Sequence[Message],
        spoken: Sequence[int] = (),
        arguments: Mapping[str, Any] = NO_ARGUMENTS,
    ) -> list[int]:
        """`spoken`: the ids of the messages up to the last but one, an answer; the prompt begins with them exactly.
        `arguments`: of the chat template.

        Raises ModelError if the chat template cannot continue them.
        """
        ...


@dataclass(frozen=True)
class RolloutContext:
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
    external: RolloutSource | None = None
    """The source of external rollouts; only for the rollout_buffer workflow."""
    waiting: ExternalWait = field(default_factory=ExternalWait)
    """The wait for external agents."""
    served_policies: "ServedPolicies | None" = None
    """The server that external generators call, if it is the run itself."""
    parallel_policies: bool = False
    """Whether policies have separate processes, so that several can generate at the same time."""
    version: Callable[[str], int] = lambda policy: 0
    """Current version of a policy's weights, by its name."""


class Conversations:
    """The conversations of one play, by slot and role. They grow by tokens: sampled ones never change, new ones are appended.

    Rendering a conversation again from its text can tokenise an answer differently from how it was sampled (AReaL's guide
    does this and can break the prefix). Here the prompt of a turn begins with exactly the ids of the previous turn's
    prompt and answer.
    """

    def __init__(self, feedback: str) -> None:
        self._feedback = feedback
        self._states: dict[tuple[int, str], tuple[list[Message], list[int]]] = {}
        """Messages and token ids so far."""

    def prompt(
        self, slot: int, role: str, opening_messages: list[Message], view: SlotView, render: Render
    ) -> tuple[list[Message], list[int]]:
        """The role's current prompt, as messages and as ids: its opening, or its conversation so far with the next message appended."""
        state = self._states.get((slot, role))
        if state is None:
            return opening_messages, render(opening_messages)
        spoken, ids = state
        messages: list[Message] = [*spoken, {"role": "user", "content": self._feedback or view.observation}]
        return messages, render(messages, ids)

    def record_answer(
        self, slot: int, role: str, messages: list[Message], prompt: Sequence[int], answer: Answer
    ) -> None:
        """Record the answer that is continued."""
        message: Message = {"role": "assistant", "content": answer.text}
        self._states[slot, role] = [*messages, message], [*prompt, *answer.token_ids]


def make_conversations(config: RunConfig) -> Conversations | None:
    """New conversations for a play, if the config's workflow uses them."""
    workflow = config.workflow
    return Conversations(workflow.feedback) if isinstance(workflow, MultiTurn) else None


@dataclass
class SlotTurn:
    """One slot in one role's turn: the prompt, and its answers once it was sent to its policy."""

    slot: int
    view: SlotView
    messages: list[Message]
    prompt: Prompt
    answers: list[Answer] = field(default_factory=list)
    sent: float = 0.0
    """When the prompt was sent, in seconds since the epoch."""
    answered: float = 0.0


@dataclass(frozen=True)
class RoleTurn:
    """A role's turn in the slots in which it speaks."""

    role: str
    began: float
    """When the slots' episodes reached this turn, in seconds since the epoch."""
    items: list[SlotTurn]
    settings: SamplingSettings


def begin_turn(
    context: RolloutContext,
    role: str,
    keys: Mapping[int, NoiseKey],
    count: int,
    settings: SamplingSettings,
    conversations: Conversations | None,
    first: Callable[[int], int] = lambda slot: 0,
) -> tuple[RoleTurn, dict[int, str]]:
    """A role's turn with its prompts in the slots of `keys`, for `count` answers each; and the errors of slots whose
    environment raised. `first` is the index of a slot's first answer in the group that shares its key.

    Slots in which it is not this role's turn, according to the environment, are in neither.
    """
    began = time.time()
    speaker = context.config.team.roles[role]
    render = context.render[speaker.policy]
    if speaker.chat_template_kwargs:
        render = partial(render, arguments=speaker.chat_template_kwargs)
    items: list[SlotTurn] = []
    views = context.pool.observe(list(keys), role)
    errors = {slot: view.error for slot, view in views.items() if view.error}
    for slot, key in keys.items():
        view = views[slot]
        if slot in errors or view.silent:
            continue
        messages = opening_messages(speaker, view)
        if conversations:
            messages, ids = conversations.prompt(slot, role, messages, view, render)
            name = "-".join(map(str, key._replace(turn=0)))  # of all the role's prompts in the episode
        else:
            ids, name = render(messages), ""
        items.append(SlotTurn(slot, view, messages, Prompt(ids, count, key, first(slot), rid=name)))
    return RoleTurn(role, began, items, settings), errors


def generate_answers(context: RolloutContext, turns: Sequence[RoleTurn]) -> None:
    """Answer the prompts of turns. Noise is keyed, so concurrent generation does not change the answers."""
    by_policy: dict[str, list[RoleTurn]] = {}
    for turn in turns:
        by_policy.setdefault(context.config.team.roles[turn.role].policy, []).append(turn)

    def generate_for(policy: str) -> None:
        for turn in by_policy[policy]:
            _generate(context.generate[policy], turn)

    if context.parallel_policies and len(by_policy) > 1:
        with ThreadPoolExecutor(max_workers=len(by_policy)) as threads:
            list(threads.map(generate_for, by_policy))
    else:
        for policy in by_policy:
            generate_for(policy)


def _generate(generate: Generate, turn: RoleTurn) -> None:
    sent = time.time()
    shared = _sharing(turn.items)
    prompts = [replace(items[0].prompt, count=sum(item.prompt.count for item in items)) for items in shared]
    answers = generate(prompts, turn.settings) if prompts else []
    answered = time.time()
    for items, own in zip(shared, answers, strict=True):
        rest = iter(own)
        for item in items:
            item.answers = list(islice(rest, item.prompt.count))
            item.sent, item.answered = sent, answered


def _sharing(items: Sequence[SlotTurn]) -> list[list[SlotTurn]]:
    """The items, where those whose answers belong to one group of one prompt are together."""
    shared: list[list[SlotTurn]] = []
    for item in items:
        last = shared[-1][-1].prompt if shared else None
        if last and replace(last, first=last.first + last.count, count=item.prompt.count) == item.prompt:
            shared[-1].append(item)
        else:
            shared.append([item])
    return shared


def opening_messages(role: Role, view: SlotView) -> list[Message]:
    """A role's messages, rewritten by its custom agent if it has one."""
    messages = chat_messages(role, view)
    return (
        list(made(role.agent.path, role.agent.args, "team.roles")(messages)) if role.agent.path else messages
    )


def chat_messages(role: Role, view: SlotView) -> list[Message]:
    """The messages that an agent sees: its role's system prompt replaces the environment's, followed by the examples."""
    seen: Sequence[Message] = view.messages or [{"role": "user", "content": view.observation}]
    if not role.prompt and not role.examples:
        return list(seen)
    system = [message for message in seen if message["role"] == "system"]
    if role.prompt:
        system = [{"role": "system", "content": role.prompt}]
    speakers = cycle(("user", "assistant"))
    examples = [
        Message(role=speaker, content=text) for speaker, text in zip(speakers, role.examples, strict=False)
    ]
    return [*system, *examples, *(message for message in seen if message["role"] != "system")]


def record_turn(
    episode: Episode,
    context: RolloutContext,
    index: int,
    role: str,
    item: SlotTurn,
    candidates: list[Candidate],
    executed: int,
) -> None:
    """Add a turn to an episode."""
    policy = context.config.team.roles[role].policy
    ids = item.prompt.token_ids
    episode.turns.append(Turn(index, role, policy, item.messages, ids, candidates, executed, item.view.board))


def record_generation(
    episode: Episode, context: RolloutContext, role: str, began: float, item: SlotTurn
) -> None:
    """Record what the episode waited for from `began` until a role had answered.

    For roles that speak at the same time, a later role is charged only with its additional time.
    """
    policy = context.config.team.roles[role].policy
    versions = version_span(version for answer in item.answers for version in answer.versions)
    record_environment(episode, began, item.sent)
    start = max(item.sent, episode.stages[-1].end if episode.stages else 0.0)
    episode.stages.append(Stage("generate", start, max(start, item.answered), role, policy, versions))


def record_environment(episode: Episode, start: float, end: float) -> None:
    """Record that the episode waited for its environment; two adjacent spans are merged."""
    if episode.stages:
        last = episode.stages[-1]
        start = episode.stages.pop().start if last.kind == "environment" else max(start, last.end)
    if end < start:  # it waited for a role that was called at the same time
        return
    episode.stages.append(Stage("environment", start, end))

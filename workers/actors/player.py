"""Player: plays tasks with the current policies, for a waiting loop or a collector in the background."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from training_core.config.rollout import RolloutBuffer
from training_core.config.run import RunConfig
from training_core.errors import ModelError
from training_core.llm.agents.session import AgentGateway
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import AnswersBySlot, EnvironmentPool, SlotView, Source
from training_core.llm.external.source import ExternalWait, RolloutSource
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.rendering import Renderer, require_chat_template
from training_core.llm.workflows.context import NO_ARGUMENTS, Generate, Render, RolloutContext
from training_core.llm.workflows.registry import WORKFLOWS
from training_core.llm.workflows.rollout_buffer import ServedPolicies
from training_core.types import Answer, Episode, Message, Prompt
from workers.protocol import Ahead, EpisodeKind, PolicyProxy, Span

Value = TypeVar("Value")
CACHED_TOKENS = 1 << 18
"""Tokens of the rendered prompts that are kept for each policy, at about 40 bytes each."""


class PromptCache:
    """The prompts that were used last, at most `tokens` tokens in total. Thread-safe."""

    def __init__(self, tokens: int) -> None:
        self._room = tokens
        """Tokens that can still be added."""
        self._prompts: OrderedDict[Hashable, list[int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._prompts)

    def get(self, key: Hashable, render: Callable[[], list[int]]) -> list[int]:
        """The prompt with this key; `render` is called if it is not in the cache."""
        with self._lock:
            if key in self._prompts:
                self._prompts.move_to_end(key)
                return self._prompts[key]
        prompt = render()
        with self._lock:
            self._room += len(self._prompts.pop(key, ())) - len(prompt)
            self._prompts[key] = prompt
            while self._room < 0:
                self._room += len(self._prompts.popitem(last=False)[1])
        return prompt


class SlotRange:
    """An EnvironmentPool whose slot 0 is the whole pool's slot `first`."""

    def __init__(self, pool: EnvironmentPool, first: int) -> None:
        self._pool = pool
        self._first = first

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        return self._from_pool(self._pool.reset(self._to_pool(tasks)))

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        return self._from_pool(self._pool.observe([slot + self._first for slot in slots], role))

    def try_answers(self, answers: AnswersBySlot, role: str) -> dict[int, list[StepResult] | str]:
        return self._from_pool(self._pool.try_answers(self._to_pool(answers), role))

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        return self._from_pool(self._pool.commit(self._to_pool(chosen)))

    def spread(self, sources: dict[int, Source]) -> dict[int, SlotView]:
        moved = {slot: source._replace(slot=source.slot + self._first) for slot, source in sources.items()}
        return self._from_pool(self._pool.spread(self._to_pool(moved)))

    def _to_pool(self, by_slot: Mapping[int, Value]) -> dict[int, Value]:
        return {slot + self._first: value for slot, value in by_slot.items()}

    def _from_pool(self, by_slot: dict[int, Value]) -> dict[int, Value]:
        return {slot - self._first: value for slot, value in by_slot.items()}


@dataclass(frozen=True)
class Played:
    """Episodes, and the workers' spans."""

    episodes: list[Episode]
    spans: list[Span]
    """In the asynchronous loop those since the last batch, including those of tasks for later batches."""
    left_out: int = 0
    """Number of uninformative tasks that others replaced."""
    ahead: Ahead | None = None
    """State of play in the background; None in the synchronous loop."""
    queued: float = 0.0
    """Earliest possible start of the episodes, in seconds since the epoch."""
    seconds: float = 0.0
    """Time that a collection took, or waited for the collector."""


class Player:
    """Holds the constant parts of play: tokenizers, environments, the policies' proxies. Thread-safe.

    `stop_requested` ends the wait for outside programs.
    """

    def __init__(
        self,
        config: RunConfig,
        proxies: Mapping[str, PolicyProxy],
        pool: EnvironmentPool,
        tokenizers: Mapping[str, Any],
        attempt: int,
        gateway: AgentGateway | None = None,
        *,
        side_by_side: bool = False,
        stop_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config = config
        self._proxies = proxies
        self._pool = pool
        self._render = {policy: renderer(tokenizer) for policy, tokenizer in tokenizers.items()}
        self._tokenizers = tokenizers
        self._attempt = attempt
        self._gateway = gateway
        self._side_by_side = side_by_side
        """Whether policies have their own processes, so that several may generate at the same time."""
        workflow = config.workflow
        self.waiting = ExternalWait(stop_requested)
        """The wait for outside programs."""
        self.external = (
            RolloutSource(workflow, config, self.waiting) if isinstance(workflow, RolloutBuffer) else None
        )
        """Source of external rollouts, if the workflow uses them."""
        self.served = (
            ServedPolicies(config, gateway) if self.external is not None and gateway is not None else None
        )
        """Policies for its generator, if the generator calls this run."""
        resources = config.resources
        self._room = resources.environment_workers * resources.environments_per_worker

    def train(
        self,
        iteration: int,
        tasks: Sequence[int],
        version: Callable[[str], int],
        *,
        first_slot: int = 0,
        episode: int = 0,
    ) -> Played:
        """Play training tasks, at most as many as there are environments. `version` returns the version that a policy must
        generate with; `first_slot` and `episode` separate environments and ids of waves that play at the same time.
        """
        spans: list[Span] = []
        context = self.context(iteration, version, spans, first_slot, episode)
        return Played(WORKFLOWS[self._config.workflow.type].train(tasks, context), spans)

    def evaluate(
        self,
        iteration: int,
        kind: EpisodeKind,
        tasks: range,
        version: Callable[[str], int],
        *,
        first_slot: int = 0,
    ) -> Played:
        """Play held-out tasks, at most as many at a time as there are environments."""
        assert kind != "train"
        play = WORKFLOWS[self._config.workflow.type].evaluate
        spans: list[Span] = []
        context = self.context(iteration, version, spans, first_slot, 0)
        played: list[Episode] = []
        for start in range(0, len(tasks), self._room):
            played.extend(play(tasks[start : start + self._room], context, kind))
        return Played(played, spans)

    def close(self) -> None:
        """End external rollouts, and refuse further requests of their generator."""
        if self.served is not None:
            self.served.close()
        if self.external is not None:
            self.external.close()

    def context(
        self, iteration: int, version: Callable[[str], int], spans: list[Span], first_slot: int, episode: int
    ) -> RolloutContext:
        """The context of one play; spans of the policies' workers are added to `spans`."""
        generators = {policy: self._generator(policy, version, spans) for policy in self._proxies}
        pool = SlotRange(self._pool, first_slot)
        return RolloutContext(
            self._config,
            pool,
            generators,
            self._render,
            self._attempt,
            iteration,
            episode,
            self._gateway,
            self._tokenizers,
            self.external,
            self.waiting,
            self.served,
            self._side_by_side,
            version,
        )

    def _generator(self, policy: str, version: Callable[[str], int], spans: list[Span]) -> Generate:
        """A function that generates with a policy, with the required version."""

        def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            generated = self._proxies[policy].generate(list(prompts), settings, version(policy))
            spans.extend(generated.spans)
            return generated.answers

        return generate


def renderer(tokenizer: Any) -> Render:
    """A function from chat messages to prompt ids. It caches results, as many prompts of a collection are equal.

    The function raises ModelError if the tokenizer has no chat template.
    """
    cache = PromptCache(CACHED_TOKENS)
    plain = Renderer(tokenizer)

    def render(
        messages: Sequence[Message], spoken: Sequence[int] = (), arguments: Mapping[str, Any] = NO_ARGUMENTS
    ) -> list[int]:
        require_chat_template(tokenizer)
        chat = plain.with_arguments(arguments)
        if spoken:
            return [*spoken, *_continuation(chat, messages, spoken)]
        key = (repr(arguments), *((message["role"], message["content"]) for message in messages))
        return cache.get(key, lambda: chat.render_conversation(messages, None))

    return render


def _continuation(chat: Renderer, messages: Sequence[Message], spoken: Sequence[int]) -> list[int]:
    """Token ids of the last message, after an answer that ends `spoken`. Raises ModelError."""
    before, whole = chat.render_text(messages[:-2], None), chat.render_text(messages, None)
    rest = chat.render_continuation(spoken, messages[-1:], before=before, whole=whole)
    if rest is None:
        raise ModelError(
            "the model's chat template changes earlier text when a conversation continues, so nothing can be appended",
            remedy='use workflow.type = "episodes", which renders every turn separately',
        )
    return rest

"""Player: plays tasks with the policies as they are, whoever asks: a loop that waits, or a collector in the background."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training_core.config.rollout import RolloutBuffer
from training_core.config.run import RunConfig
from training_core.llm.agents.gateway import AgentGateway
from training_core.llm.environments.host import EnvironmentPool
from training_core.llm.external.source import RolloutSource
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.workflows.context import Generate, Render, RolloutContext
from training_core.llm.workflows.registry import EVALUATIONS, WORKFLOWS
from training_core.llm.workflows.served_policies import ServedPolicies
from training_core.types import Answer, Episode, Message, Prompt
from workers.actors.slots import SlotRange
from workers.protocol.records import EpisodeKind, Span
from workers.protocol.spec import PolicyProxy


@dataclass(frozen=True)
class Played:
    """Episodes, and who worked when."""

    episodes: list[Episode]
    spans: list[Span]


class Player:
    """Holds what play needs and what does not change: tokenizers, environments, the policies' ports. Thread-safe.

    `leaves` says whether the run is asked to stop, for what waits for others.
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
        leaves: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config = config
        self._proxies = proxies
        self._pool = pool
        self._render = {policy: renderer(tokenizer) for policy, tokenizer in tokenizers.items()}
        self._tokenizers = tokenizers
        self._attempt = attempt
        self._gateway = gateway
        self._side_by_side = side_by_side
        """Whether policies have processes of their own, so that several may speak at the same time."""
        workflow = config.workflow
        self.outside = (
            RolloutSource(workflow, config, leaves) if isinstance(workflow, RolloutBuffer) else None
        )
        """Where rollouts from outside come from, if the workflow is for those."""
        self.served = (
            ServedPolicies(config, gateway) if self.outside is not None and gateway is not None else None
        )
        """What its generator asks, if that is the run itself."""
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
        """Play training tasks, no more than fit. `version` says at which version a policy must be that is to speak;
        `first_slot` and `episode` keep environments and names apart of waves that play at the same time.
        """
        spans: list[Span] = []
        context = self._context(iteration, version, spans, first_slot, episode)
        return Played(WORKFLOWS[self._config.workflow.type](tasks, context), spans)

    def evaluate(
        self,
        iteration: int,
        kind: EpisodeKind,
        tasks: range,
        version: Callable[[str], int],
        *,
        first_slot: int = 0,
    ) -> Played:
        """Play held-out tasks, no more at a time than the environment workers hold."""
        assert kind != "train"
        play = EVALUATIONS[self._config.workflow.type]
        spans: list[Span] = []
        context = self._context(iteration, version, spans, first_slot, 0)
        played: list[Episode] = []
        for start in range(0, len(tasks), self._room):
            played.extend(play(tasks[start : start + self._room], context, kind))
        return Played(played, spans)

    def close(self) -> None:
        """End what was begun outside, and refuse what still asks."""
        if self.served is not None:
            self.served.close()
        if self.outside is not None:
            self.outside.close()

    def _context(
        self, iteration: int, version: Callable[[str], int], spans: list[Span], first_slot: int, episode: int
    ) -> RolloutContext:
        voices = {policy: self._voice(policy, version, spans) for policy in self._proxies}
        pool = SlotRange(self._pool, first_slot)
        return RolloutContext(
            self._config,
            pool,
            voices,
            self._render,
            self._attempt,
            iteration,
            episode,
            self._gateway,
            self._tokenizers,
            self.outside,
            self.served,
            self._side_by_side,
            version,
        )

    def _voice(self, policy: str, version: Callable[[str], int], spans: list[Span]) -> Generate:
        """What lets a policy speak: its port, with the version that it must be at."""

        def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            generated = self._proxies[policy].generate(list(prompts), settings, version(policy))
            spans.extend(generated.spans)
            return generated.answers

        return generate


def renderer(tokenizer: Any) -> Render:
    """Chat messages -> prompt ids. What was rendered before is remembered: many prompts of a collection are equal."""
    seen: dict[tuple[tuple[str, str], ...], list[int]] = {}

    def render(messages: Sequence[Message]) -> list[int]:
        key = tuple((message["role"], message["content"]) for message in messages)
        if key not in seen:
            encoded = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=True)
            seen[key] = list(encoded["input_ids"])
        return seen[key]

    return render

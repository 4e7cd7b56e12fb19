"""External rollouts: K records of each prompt, produced by any program and delivered by a rollout buffer service.

The group is (prompt, role), as for whole episodes. The policy's output arrives as token ids with logprobs and
versions, or as text without sampling logprobs; the learner then computes them with the weights at the start of the
update. The program that produces them may call the policies of the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

from training_core.config.rollout import RolloutBuffer
from training_core.config.run import RunConfig
from training_core.llm.agents.session import AgentGateway, Session, SessionSpec
from training_core.llm.external.records import RecordReader, train_episodes
from training_core.llm.external.source import RolloutSource
from training_core.llm.generation.base import Generate, SamplingSettings
from training_core.llm.serving.batching import Gate
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import play_independent
from training_core.llm.workflows.lockstep import EpisodeKind
from training_core.llm.workflows.overlong import apply_overlong_penalty
from training_core.llm.workflows.task_episodes import policy_clients
from training_core.seeding import NoiseStream
from training_core.types import Answer, Episode, Prompt


def play_rollout_buffer(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """As many groups as there are tasks. Raises BufferFailure if they do not arrive."""
    source, reader = _source(context)
    with _engine(context, "train") as engine_url:
        groups = source.take(len(tasks), engine_url)
    episodes = train_episodes(groups, reader, context.first)
    apply_overlong_penalty(episodes, context.config)
    return episodes


def evaluate_rollout_buffer(
    tasks: Sequence[int], context: RolloutContext, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """The generator plays workflow.evaluation_file; without one the held-out tasks are played here."""
    workflow = context.config.workflow
    if not (isinstance(workflow, RolloutBuffer) and workflow.evaluation_file):
        return play_independent(tasks, context, kind)
    source, reader = _source(context)
    with _engine(context, kind) as engine_url:
        groups = source.evaluate(context.iteration, kind, engine_url)
    episodes = []
    for task in tasks:
        if task < len(groups):
            episode = reader.episode(groups[task][0], kind, str(task))
            episode.probe = task < context.config.evaluation.probes
            episodes.append(episode)
    apply_overlong_penalty(episodes, context.config)
    return episodes


def _engine(context: RolloutContext, kind: EpisodeKind) -> AbstractContextManager[str]:
    """The server that generators call: the config's, or the run's own policies."""
    if context.served_policies is not None:
        return context.served_policies.serving(context.generate, kind)
    workflow = context.config.workflow
    return nullcontext(workflow.engine_url if isinstance(workflow, RolloutBuffer) else "")


def _source(context: RolloutContext) -> tuple[RolloutSource, RecordReader]:
    workflow = context.config.workflow
    assert isinstance(workflow, RolloutBuffer) and context.external is not None, "only of this workflow"
    reader = RecordReader(
        context.config, workflow, context.tokenizers, context.attempt, context.iteration, context.version
    )
    return context.external, reader


class ServedPolicies:
    """The run's own policies as the server that a generator calls: one address per kind of play, for the whole run.

    A generator continues during updates; its requests wait until they end, so that no answer is sampled from partially
    updated weights. Thread-safe.
    """

    def __init__(self, config: RunConfig, gateway: AgentGateway) -> None:
        self._config = config
        self._gateway = gateway
        self._engines: Mapping[str, Generate] = {}
        self._addresses: dict[EpisodeKind, str] = {}
        self._gate = Gate(slots=None)
        self._gate.close()

    @contextmanager
    def serving(self, engines: Mapping[str, Generate], kind: EpisodeKind) -> Iterator[str]:
        """The address for this kind. Within the block, requests of every kind are answered by `engines`; afterwards they wait.

        Blocks do not overlap.
        """
        self._engines = engines
        self._gate.open()
        try:
            yield self._address(kind)
        finally:
            self._gate.close()

    def close(self) -> None:
        """Refuse waiting requests."""
        self._gate.end("the run has ended")

    def _address(self, kind: EpisodeKind) -> str:
        if kind not in self._addresses:
            generate = {policy: self._generator(policy) for policy in self._config.used_policies}
            clients = policy_clients(self._config, generate, self._gateway, kind)
            episode = Episode(f"served-{kind}", 0, kind, "", "")
            noise = self._config.run.seed, NoiseStream.SERVED_POLICIES, 0, 0
            spec = SessionSpec(
                episode, {}, clients, noise
            )  # records contain the text, so it is not stored here
            self._addresses[kind] = self._gateway.open(Session(spec, stores_calls=False))
        return self._addresses[kind]

    def _generator(self, policy: str) -> Generate:
        """The policy's current engine, once it may generate."""

        def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            with self._gate.passing():
                return self._engines[policy](prompts, settings)

        return generate

"""Router: prompts of roles to their policies' workers, trajectories to the policies' update workers.

Several roles may share one policy (role sharing) or have one each: what goes where follows from `team.roles`. The
same class serves local runs (its ports are workers in this process) and Ray (its ports are actors; it is one itself).
It holds no tensors and imports no torch.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from training_core.config.run import RunConfig
from training_core.llm.environments.host import EnvironmentPool
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.learning.batch import make_groups
from training_core.llm.models.base_evaluation import base_evaluation
from training_core.llm.workflows.independent import play_independent
from training_core.llm.workflows.registry import WORKFLOWS
from training_core.llm.workflows.table import Generate, Render, Table
from training_core.types import Answer, Episode, Message, Prompt
from workers.actors.spec import PolicyPort, Ready
from workers.loops.batches import batch_documents
from workers.loops.metrics import episode_facts
from workers.loops.records import Collected, EpisodeKind, Span, Started, System, Updated
from workers.loops.transcripts import annotation_document, choose_transcripts, episode_document

Answered = TypeVar("Answered")


class Router:
    """The whole crew of a run behind one object; see Crew."""

    def __init__(
        self,
        config: RunConfig,
        ports: Mapping[str, PolicyPort],
        pool: EnvironmentPool,
        *,
        side_by_side: bool = True,
    ) -> None:
        # Here, not above: the driver imports this module to make the actor, and stays light.
        from workers.actors import tokenizers

        self._load_tokenizer = tokenizers.light_tokenizer
        self._config = config
        self._ports = dict(ports)
        self._pool = pool
        self._side_by_side = side_by_side
        """Whether policies have processes of their own; in one process threads would only get in each other's way."""
        self._attempt = 1
        self._versions = dict.fromkeys(config.used_policies, 0)
        self._tokenizers: dict[str, Any] = {}
        self._texts: dict[str, dict[int, str]] = {}
        """Tokens as text, by policy and id."""
        self._spans: list[Span] = []
        self._episodes: list[Episode] = []
        """Of the last collection, until they are learnt from."""
        self._queued = 0.0
        """When they could have begun, seconds since the epoch."""
        self._kept: list[Episode] = []
        """Those of them whose transcripts were handed over, until they are annotated."""

    def start(self, attempt: int, resume_from: Path | None) -> Started:
        """Every policy's workers at once; then the tokenizers that render prompts."""
        self._attempt = attempt
        ready: dict[str, Ready] = self._every(
            self._config.used_policies, lambda _, port: port.start(resume_from)
        )
        self._versions = {policy: item.version for policy, item in ready.items()}
        self._tokenizers = {policy: self._load_tokenizer(item.model) for policy, item in ready.items()}
        spans = [span for item in ready.values() for span in item.spans]
        bases = {policy: item.base for policy, item in ready.items()}
        return Started(bases, base_evaluation(self._config, bases.values()), spans)

    def collect(self, iteration: int) -> Collected:
        """See Crew. Trajectories stay here, sorted by the policy that learns from them."""
        rollout = self._config.rollout
        first = (iteration - 1) * rollout.tasks
        start = self._queued = time.time()
        episodes = self._play(iteration, "train", range(first, first + rollout.tasks))
        seconds = time.time() - start
        chosen = choose_transcripts(
            self._config.run.seed, iteration, len(episodes), self._config.reporting.episodes_per_iteration
        )
        self._episodes = episodes
        self._kept = [episodes[place] for place in sorted(chosen)]
        return self._collected(episodes, self._kept, seconds)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int, first: int = 0) -> Collected:
        """See Crew. The first of the held-out tasks are the probes; `first` begins at a later one."""
        start = time.time()
        played = self._play(iteration, kind, range(first, first + episodes))
        self._spans = [replace(span, phase="evaluate", iteration=iteration) for span in self._spans]
        probes = [episode for episode in played if episode.probe]
        return self._collected(played, probes, time.time() - start)

    def update(self, iteration: int) -> Updated:
        """See Crew. Groups are formed here; then all trained policies learn at the same time."""
        batch = make_groups(self._episodes, self._config)
        wanted = {episode.id for episode in self._kept}
        consumed = time.time()
        updates = self._every(
            self._config.trained_policies,
            lambda policy, port: port.update(batch.groups[policy], iteration, self._versions[policy], wanted),
        )
        figures = {place: item for update in updates.values() for place, item in update.annotations.items()}
        annotations = [
            annotation_document(episode, figures, {"generated": episode.ended, "consumed": consumed})
            for episode in self._kept
        ]
        answers = sum(update.answers for update in updates.values())
        documents = list(
            batch_documents(
                self._episodes,
                self._versions,
                iteration=iteration,
                queued=self._queued,
                consumed=consumed,
                learnt=max((update.span.end for update in updates.values()), default=consumed),
            )
        )
        self._episodes, self._kept = [], []
        return Updated(
            {policy: update.metrics for policy, update in updates.items()},
            annotations,
            {role: asdict(counts) for role, counts in batch.counts.items()},
            sum(update.dropped for update in updates.values()),
            sum(update.lag for update in updates.values()) / answers if answers else 0.0,
            [update.span for update in updates.values()],
            documents,
        )

    def publish(self, iteration: int) -> list[Span]:
        """See Crew."""
        for policy in self._config.trained_policies:
            self._versions[policy] += 1
        spans = self._every(
            self._config.trained_policies,
            lambda policy, port: port.publish(self._versions[policy], iteration),
        )
        return [span for part in spans.values() for span in part]

    def save(self, folder: Path) -> None:
        """See Crew. Frozen policies too: they may have weights of another run's checkpoint."""
        self._every(self._config.used_policies, lambda _, port: port.save(folder))

    def system(self) -> System:
        """See Crew."""
        whole = System({})
        for part in self._every(self._config.used_policies, lambda _, port: port.system()).values():
            whole.add(part)
        return whole

    def _play(self, iteration: int, kind: EpisodeKind, tasks: range) -> list[Episode]:
        """Play tasks, no more at a time than the environment workers hold."""
        table = Table(
            self._config,
            self._pool,
            {policy: self._voice(policy) for policy in self._ports},
            {policy: _renderer(tokenizer) for policy, tokenizer in self._tokenizers.items()},
            self._attempt,
            iteration,
        )
        resources = self._config.resources
        room = resources.environment_workers * resources.environments_per_worker
        played: list[Episode] = []
        for start in range(0, len(tasks), room):
            some = tasks[start : start + room]
            if kind == "train":
                played.extend(WORKFLOWS[self._config.workflow.type](some, table))
            else:
                played.extend(play_independent(some, table, kind))
        return played

    def _voice(self, policy: str) -> Generate:
        """What lets a policy speak: its port, with the version that it must be at."""

        def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            generated = self._ports[policy].generate(list(prompts), settings, self._versions[policy])
            self._spans.extend(generated.spans)
            return generated.answers

        return generate

    def _every(
        self, policies: Iterable[str], call: Callable[[str, PolicyPort], Answered]
    ) -> dict[str, Answered]:
        """Call the ports of these policies, at the same time where they are processes of their own.

        The first error is raised when all have answered.
        """
        names = list(policies)
        if not self._side_by_side or len(names) == 1:
            return {name: call(name, self._ports[name]) for name in names}
        with ThreadPoolExecutor(max_workers=len(names)) as threads:
            futures = {name: threads.submit(call, name, self._ports[name]) for name in names}
        return {name: future.result() for name, future in futures.items()}

    def _collected(self, episodes: list[Episode], kept: list[Episode], seconds: float) -> Collected:
        spans, self._spans = self._spans, []
        documents = [episode_document(episode, self._versions, self._spell) for episode in kept]
        return Collected([episode_facts(episode) for episode in episodes], documents, spans, seconds)

    def _spell(self, policy: str, ids: Sequence[int]) -> list[str]:
        known = self._texts.setdefault(policy, {})
        for number in ids:
            if number not in known:
                known[number] = self._tokenizers[policy].decode([number])
        return [known[number] for number in ids]


def _renderer(tokenizer: Any) -> Render:
    """Chat messages -> prompt ids. What was rendered before is remembered: many prompts of a collection are equal."""
    seen: dict[tuple[tuple[str, str], ...], list[int]] = {}

    def render(messages: Sequence[Message]) -> list[int]:
        key = tuple((message["role"], message["content"]) for message in messages)
        if key not in seen:
            encoded = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=True)
            seen[key] = list(encoded["input_ids"])
        return seen[key]

    return render

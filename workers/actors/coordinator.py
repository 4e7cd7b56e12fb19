"""RolloutCoordinator: plays tasks with the policies' workers, and sends the episodes to the policies that learn from them.

`team.roles` assigns roles to policies; several roles may share one policy. Local runs use the class with workers in this
process; on Ray it is an actor and its policies are other actors. It holds no tensors and imports no torch.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from training_core.algorithms.registry import make_hooks
from training_core.config.run import RunConfig
from training_core.llm.base_models.base_evaluation import base_evaluation
from training_core.llm.environments.dataset import check_held_out
from training_core.llm.environments.host import EnvironmentPool
from training_core.llm.generation.rendering import check_template_arguments
from training_core.llm.learning.training_groups import make_groups, read_baselines, save_baselines
from training_core.llm.rewards.judge import has_judge, judge_metrics, take_counts
from training_core.llm.workflows.agent import check_workflow
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.message_worth import AT_ONCE, WorthSettings, measure, worth_by_role
from training_core.llm.workflows.replay import recorded_episode
from training_core.types import NOT_SAMPLED, Answer, Episode
from training_core.versions import oldest_versions
from workers.actors.player import Played, Player
from workers.actors.rollouts import Rollouts
from workers.gateway.gateway import open_gateway
from workers.protocol import (
    Collected,
    EpisodeKind,
    PolicyProxy,
    PolicyUpdate,
    Ready,
    Span,
    Started,
    System,
    TrainingBackend,
    Updated,
)
from workers.telemetry.metrics import episode_facts
from workers.telemetry.transcripts import (
    annotation_document,
    batch_documents,
    choose_transcripts,
    episode_document,
)

Result = TypeVar("Result")


class EpisodeDocuments:
    """Builds documents. Each token is decoded once per policy."""

    def __init__(self, config: RunConfig, tokenizers: Mapping[str, Any]) -> None:
        self._config = config
        self._tokenizers = tokenizers
        self._texts: dict[str, dict[int, str]] = {}
        """Text of tokens, by policy and id."""

    def choose(self, iteration: int, episodes: Sequence[Episode]) -> list[Episode]:
        """The training episodes of an iteration that get transcripts."""
        count = self._config.reporting.episodes_per_iteration
        chosen = choose_transcripts(self._config.run.seed, iteration, len(episodes), count)
        return [episodes[index] for index in sorted(chosen)]

    def transcripts(self, episodes: Sequence[Episode], versions: Mapping[str, int]) -> list[dict[str, Any]]:
        """Fields of episode events. `versions` are those of policies that generated nothing in an episode."""
        return [
            episode_document(episode, {**versions, **oldest_versions(episode)}, self._token_texts)
            for episode in episodes
        ]

    def ids(self, policy: str, text: str) -> list[int]:
        """Token ids of a whole answer, with the token that ends it."""
        tokenizer = self._tokenizers[policy]
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids if tokenizer.eos_token_id is None else [*ids, tokenizer.eos_token_id]

    def _token_texts(self, policy: str, ids: Sequence[int]) -> list[str]:
        texts = self._texts.setdefault(policy, {})
        for number in ids:
            if number not in texts:
                texts[number] = self._tokenizers[policy].decode([number])
        return [texts[number] for number in ids]


def annotations(
    episodes: Sequence[Episode], updates: Mapping[str, PolicyUpdate], consumed: float
) -> list[dict[str, Any]]:
    """Fields of annotation events. `consumed`: start of the update, in seconds since the epoch."""
    figures = {turn: item for update in updates.values() for turn, item in update.annotations.items()}
    return [
        annotation_document(episode, figures, {"generated": episode.ended, "consumed": consumed})
        for episode in episodes
    ]


def light_tokenizer(source: str) -> Any:
    """The tokenizer of a model, from the folder's tokenizer.json; without that file, from the model's class. Raises ModelError.

    The driver imports this module without transformers. From the file, the tokenizer needs no torch, whose import takes seconds.
    """
    if (Path(source) / "tokenizer.json").is_file():
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast.from_pretrained(source)
    from training_core.llm.models.loading import load_tokenizer

    return load_tokenizer(source)


class RolloutCoordinator(TrainingBackend):
    """Runs rollout, grouping, update and publication of all policies of a run."""

    def __init__(
        self,
        config: RunConfig,
        proxies: Mapping[str, PolicyProxy],
        pool: EnvironmentPool,
        attempt: int = 1,
        *,
        side_by_side: bool = True,
        stop_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        """`side_by_side`: policies have their own processes; in one process, threads would only compete.
        `stop_requested`: whether outside programs are no longer waited for.
        """
        self._config = config
        self._proxies = dict(proxies)
        self._pool = pool
        self._attempt = attempt
        self._side_by_side = side_by_side
        self._stop_requested = stop_requested
        self._versions = dict.fromkeys(config.used_policies, 0)
        self._baselines: dict[str, float] = {}
        """By name, if the algorithm has baselines; RAE's are by role."""
        self._unpublished: set[str] = set()
        """Policies that were updated since weights were last published."""
        self._gateway: Any = None
        self._rollouts: Rollouts | None = None
        self._documents: EpisodeDocuments
        self._collection = Played([], [])
        """The last collection, until it is trained on."""
        self._transcribed: list[Episode] = []
        """Its episodes with transcripts, until they are annotated."""

    def start(self, resume_from: Path | None) -> Started:
        """Start all policies' workers, then load the tokenizers and open the gateway. Raises ConfigError before, if an
        algorithm or a workflow by import path cannot be loaded.
        """
        if self._config.trained_policies:
            make_hooks(self._config.algorithm)
        check_workflow(self._config.workflow)
        check_held_out(self._config.environment, self._config.evaluation.every)
        ready: dict[str, Ready] = self._each(
            self._config.used_policies, lambda _, proxy: proxy.start(resume_from)
        )
        self._versions = {policy: item.version for policy, item in ready.items()}
        tokenizers = {policy: light_tokenizer(item.model) for policy, item in ready.items()}
        for role, section in self._config.team.roles.items():
            if section.policy in tokenizers:
                check_template_arguments(tokenizers[section.policy], section.chat_template_kwargs, role)
        threads = len(self._proxies) if self._side_by_side else 1
        self._gateway = open_gateway(self._config, tokenizers, threads)
        player = Player(
            self._config,
            self._proxies,
            self._pool,
            tokenizers,
            self._attempt,
            self._gateway,
            side_by_side=self._side_by_side,
            stop_requested=self._stop_requested,
        )
        self._rollouts = Rollouts(self._config, player)
        self._documents = EpisodeDocuments(self._config, tokenizers)
        if resume_from is not None:
            self._baselines = read_baselines(resume_from)
            self._rollouts.restore(resume_from)
        bases = {policy: item.base for policy, item in ready.items()}
        spans = [span for item in ready.values() for span in item.spans]
        if self._gateway is not None:
            return Started(bases, {}, spans, {"url": self._gateway.url, "token": self._gateway.token})
        return Started(bases, base_evaluation(self._config, bases.values()), spans)

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        self._started.play_ahead(completed, self._versions, admission)

    def collect(self, iteration: int) -> Collected:
        """Play the iteration's tasks or wait for a batch. The episodes stay here for the update."""
        with self._started.collecting():
            collection = self._started.collect(iteration, self._versions)
            self._collection = collection
            self._transcribed = self._documents.choose(iteration, collection.episodes)
            collected = self._collected(
                collection.episodes, self._transcribed, collection.spans, collection.seconds
            )
        collected.ahead = collection.ahead
        if self._config.rollout.over_sampling > 1:
            collected.figures["rollout/left_out"] = float(collection.left_out)
        collected.figures |= self._judge_metrics("judge")
        return collected

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int, first: int = 0) -> Collected:
        """Play held-out tasks, from number `first`. The first tasks of all are the probes, which get transcripts."""
        start = time.time()
        tasks = range(first, first + episodes)
        played = self._started.evaluate(iteration, kind, tasks, self._versions)
        spans = [replace(span, phase="evaluate", iteration=iteration) for span in played.spans]
        probes = [episode for episode in played.episodes if episode.probe]
        collected = self._collected(played.episodes, probes, spans, time.time() - start)
        collected.figures |= self._judge_metrics(f"{kind}/judge")
        if first == 0 and kind == ("eval" if self._config.evaluation.greedy else "eval_sampled"):
            collected.figures |= self._worth_metrics(kind, played.episodes)
        return collected

    def _worth_metrics(self, kind: EpisodeKind, episodes: Sequence[Episode]) -> dict[str, float]:
        """By role, over the first evaluation.worth episodes: the worth of greedy messages with its interval, and the influence."""
        chosen = [item for item in episodes[: self._config.evaluation.worth] if not item.failed]
        recorded = [recorded_episode(document, self._config) for document in self.documents(chosen)]
        resources = self._config.resources
        slots = min(AT_ONCE, resources.environment_workers * resources.environments_per_worker)
        measured = measure(recorded, self.replay_context(), WorthSettings(), slots=slots)
        metrics = {f"{kind}/worth_left_out": float(len(measured.refused))} if measured.refused else {}
        for role, earned in worth_by_role(measured.messages).items():
            figures = {"worth": earned.worth, "worth_half_width": earned.half_width} if kind == "eval" else {}
            figures |= {"influence": earned.influence, "influence_high": earned.influence_high}
            metrics |= {
                f"{kind}/{role}/{name}": value for name, value in figures.items() if value is not None
            }
        return metrics

    def replay_context(self) -> RolloutContext:
        """The context in which recorded episodes are replayed with the current policies."""
        return self._started.replay_context(self._versions)

    def written(self, role: str, text: str) -> Answer:
        """A text as an answer of a role that its policy has not sampled: it has no log-probabilities."""
        ids = self._documents.ids(self._config.team.roles[role].policy, text)
        return Answer(ids, [0.0] * len(ids), [NOT_SAMPLED] * len(ids), "stop", text)

    def documents(self, episodes: Sequence[Episode]) -> list[dict[str, Any]]:
        """Fields of the events of these episodes."""
        return self._documents.transcripts(episodes, self._versions)

    def update(self, iteration: int) -> Updated:
        """Form groups, then update the policies that learn in this iteration, at the same time."""
        groups = make_groups(self._collection.episodes, self._config, self._baselines)
        self._baselines, versions = groups.baselines, self._versions
        annotated = {episode.id for episode in self._transcribed}
        consumed = time.time()
        policies = self._config.learning_policies(iteration)
        self._unpublished.update(policies)
        updates = self._each(
            policies,
            lambda policy, proxy: proxy.update(groups.groups[policy], iteration, versions[policy], annotated),
        )
        ends = (span.end for update in updates.values() for span in update.spans)
        batch = batch_documents(
            self._collection.episodes,
            versions,
            iteration=iteration,
            queued=self._collection.queued,
            consumed=consumed,
            learnt=max(ends, default=consumed),
        )
        answers = sum(update.answers for update in updates.values())
        lag = sum(update.lag for update in updates.values())
        updated = Updated(
            {policy: update.metrics for policy, update in updates.items()},
            annotations(self._transcribed, updates, consumed),
            {role: asdict(counts) for role, counts in groups.counts.items()},
            sum(update.dropped for update in updates.values()),
            lag / answers if answers else 0.0,
            [span for update in updates.values() for span in update.spans],
            list(batch),
        )
        self._collection, self._transcribed = Played([], []), []
        return updated

    def publish(self, iteration: int) -> list[Span]:
        """Publish the policies that were updated since the last publication, each as its next version."""
        versions = {policy: self._versions[policy] + 1 for policy in sorted(self._unpublished)}
        self._unpublished = set()
        spans = self._each(versions, lambda policy, proxy: proxy.publish(versions[policy], iteration))
        self._versions |= versions
        self._started.published(iteration, self._versions)
        return [span for part in spans.values() for span in part]

    def snapshot(self) -> dict[str, tuple[int, Any]]:
        """By trained policy: its version, and a reference to its weights."""
        proxies: Mapping[str, Any] = self._proxies
        return {
            policy: (self._versions[policy], proxies[policy].snapshot(self._versions[policy]))
            for policy in self._config.trained_policies
        }

    def save(self, folder: Path) -> None:
        """Write the policies' parts; frozen policies too, since they may have weights of another run's checkpoint."""
        self._each(self._config.used_policies, lambda _, proxy: proxy.save(folder))
        if self._baselines:
            save_baselines(folder, self._baselines)
        self._started.save(folder)

    def system(self) -> System:
        system = System({})
        for part in self._each(self._config.used_policies, lambda _, proxy: proxy.system()).values():
            system.add(part)
        return system

    def external_wait(self, end: bool = False) -> str:
        """What the run waits for that outside programs do; empty if it does not wait. `end`: a stop was requested, so that
        nothing is waited for any longer.
        """
        if self._rollouts is None:
            return ""
        waiting = self._rollouts.waiting
        if end:
            waiting.end()
        return waiting.reason

    def close(self) -> None:
        """End background play, external rollouts and the gateway."""
        if self._rollouts is not None:
            self._rollouts.waiting.end()
            self._rollouts.close()
        if self._gateway is not None:
            self._gateway.close()
            self._gateway = None

    @property
    def _started(self) -> Rollouts:
        assert self._rollouts is not None, "start comes first"
        return self._rollouts

    def _each(self, policies: Iterable[str], call: Callable[[str, PolicyProxy], Result]) -> dict[str, Result]:
        """Call the proxies of these policies, at the same time if they have their own processes.

        Raises the first error after all calls have ended.
        """
        names = list(policies)
        if not self._side_by_side or len(names) <= 1:
            return {name: call(name, self._proxies[name]) for name in names}
        with ThreadPoolExecutor(max_workers=len(names)) as threads:
            futures = {name: threads.submit(call, name, self._proxies[name]) for name in names}
        return {name: future.result() for name, future in futures.items()}

    def _judge_metrics(self, prefix: str) -> dict[str, float]:
        """Metrics of judges since the last call, in this process and in those of the environments."""
        take = getattr(self._pool, "judge_counts", take_counts)
        return judge_metrics(take(), prefix) if has_judge(self._config) else {}

    def _collected(
        self, episodes: list[Episode], transcribed: list[Episode], spans: list[Span], seconds: float
    ) -> Collected:
        facts = [episode_facts(episode) for episode in episodes]
        transcripts = self._documents.transcripts(transcribed, self._versions)
        return Collected(facts, transcripts, spans, seconds, figures=self._started.figures)

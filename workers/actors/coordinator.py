"""RolloutCoordinator: prompts of roles to their policies' workers, trajectories to the policies' update workers.

Several roles may share one policy (role sharing) or have one each: what goes where follows from `team.roles`. The
same class serves local runs (its ports are workers in this process) and Ray (its ports are actors; it is one itself).
It holds no tensors and imports no torch.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from training_core.config.rollout import Agent, RolloutBuffer
from training_core.config.run import RunConfig
from training_core.llm.base_models.base_evaluation import base_evaluation
from training_core.llm.environments.host import EnvironmentPool
from training_core.llm.external.checkpoint import read_external, save_external
from training_core.llm.learning.baselines import read_baselines, save_baselines
from training_core.llm.learning.training_groups import make_groups
from training_core.llm.workflows.served_policies import POLICIES
from training_core.types import Episode
from training_core.versions import oldest_versions
from workers.actors.collector import Collector
from workers.actors.player import Player
from workers.actors.resampling import play_until_telling
from workers.protocol.records import Ahead, Collected, EpisodeKind, Span, Started, System, Updated
from workers.protocol.spec import PolicyProxy, Ready
from workers.telemetry.batches import batch_documents
from workers.telemetry.metrics import episode_facts
from workers.telemetry.transcripts import annotation_document, choose_transcripts, episode_document

Answered = TypeVar("Answered")


class RolloutCoordinator:
    """Runs rollout, grouping, update and publication of all policies of a run."""

    def __init__(
        self,
        config: RunConfig,
        proxies: Mapping[str, PolicyProxy],
        pool: EnvironmentPool,
        *,
        side_by_side: bool = True,
        leaves: Callable[[], bool] = lambda: False,
    ) -> None:
        # Here, not above: the driver imports this module to make the actor, and stays light.
        from workers.actors import tokenizers

        self._load_tokenizer = tokenizers.light_tokenizer
        self._config = config
        self._proxies = dict(proxies)
        self._pool = pool
        self._leaves = leaves
        self._left = threading.Event()
        self._side_by_side = side_by_side
        """Whether policies have processes of their own; in one process threads would only get in each other's way."""
        self._versions = dict.fromkeys(config.used_policies, 0)
        self._learnt: set[str] = set()
        """Policies that were updated since weights were last published."""
        self._baselines: dict[str, float] = {}
        """By role, where the algorithm has them."""
        self._tokenizers: dict[str, Any] = {}
        self._texts: dict[str, dict[int, str]] = {}
        """Tokens as text, by policy and id."""
        self._gateway: Any = None
        """Where agents of one's own reach the policies, if the workflow is for those."""
        self._player: Player
        self._collector: Collector | None = None
        """Where play goes on in the background."""
        self._episodes: list[Episode] = []
        """Of the last collection, until they are learnt from."""
        self._queued = 0.0
        """When they could have begun, seconds since the epoch."""
        self._kept: list[Episode] = []
        """Those of them whose transcripts were handed over, until they are annotated."""
        self._outside: dict[str, Any] | None = None
        """While tasks are played: what a checkpoint of the last completed iteration keeps of rollouts from outside."""

    def start(self, attempt: int, resume_from: Path | None) -> Started:
        """Every policy's workers at once; then the tokenizers that render prompts."""
        ready: dict[str, Ready] = self._every(
            self._config.used_policies, lambda _, proxy: proxy.start(resume_from)
        )
        self._versions = {policy: item.version for policy, item in ready.items()}
        self._tokenizers = {policy: self._load_tokenizer(item.model) for policy, item in ready.items()}
        gateway = self._open_gateway()
        self._player = Player(
            self._config,
            self._proxies,
            self._pool,
            self._tokenizers,
            attempt,
            self._gateway,
            side_by_side=self._side_by_side,
            leaves=lambda: self._left.is_set() or self._leaves(),
        )
        if resume_from is not None:
            self._baselines = read_baselines(resume_from)
        if self._player.outside is not None and resume_from is not None:
            self._player.outside.recall(read_external(resume_from))
        spans = [span for item in ready.values() for span in item.spans]
        bases = {policy: item.base for policy, item in ready.items()}
        known = {} if gateway else base_evaluation(self._config, bases.values())
        return Started(bases, known, spans, gateway)

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        self._collector = Collector(self._config, self._player)
        self._collector.start(completed, self._versions, admission)

    def collect(self, iteration: int) -> Collected:
        """Trajectories stay here, sorted by the policy that learns from them."""
        outside = self._player.outside
        self._outside = deepcopy(outside.state()) if outside is not None else None
        try:
            return self._collect(iteration)
        finally:
            self._outside = None

    def _collect(self, iteration: int) -> Collected:
        start = time.time()
        ahead, left_out = None, 0
        if self._collector is not None:
            batch = self._collector.take()
            episodes, spans = (
                [replace(episode, iteration=iteration) for episode in batch.episodes],
                batch.spans,
            )
            self._queued = min((episode.started for episode in episodes), default=start)
            ahead = batch.ahead
        else:
            self._queued = start
            found = play_until_telling(self._player, self._config, iteration, self._versions.__getitem__)
            episodes, spans, left_out = found.played.episodes, found.played.spans, found.left_out
        seconds = time.time() - start
        chosen = choose_transcripts(
            self._config.run.seed, iteration, len(episodes), self._config.reporting.episodes_per_iteration
        )
        self._episodes = episodes
        self._kept = [episodes[place] for place in sorted(chosen)]
        collected = self._collected(episodes, self._kept, spans, seconds, ahead)
        if self._config.rollout.over_sampling > 1:
            collected.figures["rollout/left_out"] = float(left_out)
        return collected

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int, first: int = 0) -> Collected:
        """The first of the held-out tasks are the probes; `first` begins at a later one."""
        start = time.time()
        beside = self._config.training_slots if self._collector else 0
        tasks = range(first, first + episodes)
        played = self._player.evaluate(iteration, kind, tasks, self._versions.__getitem__, first_slot=beside)
        spans = [replace(span, phase="evaluate", iteration=iteration) for span in played.spans]
        probes = [episode for episode in played.episodes if episode.probe]
        return self._collected(played.episodes, probes, spans, time.time() - start)

    def update(self, iteration: int) -> Updated:
        """Groups are formed here; then all policies whose turn it is learn at the same time."""
        batch = make_groups(self._episodes, self._config, self._baselines)
        self._baselines = batch.baselines
        wanted = {episode.id for episode in self._kept}
        consumed = time.time()
        self._learnt.update(self._config.learning_policies(iteration))
        updates = self._every(
            self._config.learning_policies(iteration),
            lambda policy, proxy: proxy.update(
                batch.groups[policy], iteration, self._versions[policy], wanted
            ),
        )
        figures = {place: item for update in updates.values() for place, item in update.annotations.items()}
        annotations = [
            annotation_document(episode, figures, {"generated": episode.ended, "consumed": consumed})
            for episode in self._kept
        ]
        spans = [span for update in updates.values() for span in update.spans]
        answers = sum(update.answers for update in updates.values())
        documents = list(
            batch_documents(
                self._episodes,
                self._versions,
                iteration=iteration,
                queued=self._queued,
                consumed=consumed,
                learnt=max((span.end for span in spans), default=consumed),
            )
        )
        self._episodes, self._kept = [], []
        return Updated(
            {policy: update.metrics for policy, update in updates.items()},
            annotations,
            {role: asdict(counts) for role, counts in batch.counts.items()},
            sum(update.dropped for update in updates.values()),
            sum(update.lag for update in updates.values()) / answers if answers else 0.0,
            spans,
            documents,
        )

    def publish(self, iteration: int) -> list[Span]:
        learnt, self._learnt = sorted(self._learnt), set()
        versions = {policy: self._versions[policy] + 1 for policy in learnt}
        spans = self._every(
            learnt,
            lambda policy, proxy: proxy.publish(versions[policy], iteration),
        )
        self._versions |= versions
        if self._collector is not None:
            self._collector.published(iteration, self._versions)
        return [span for part in spans.values() for span in part]

    def save(self, folder: Path) -> None:
        """Frozen policies too: they may have weights of another run's checkpoint."""
        self._every(self._config.used_policies, lambda _, proxy: proxy.save(folder))
        if self._baselines:
            save_baselines(folder, self._baselines)
        if self._player.outside is not None:
            save_external(folder, self._outside or self._player.outside.state())

    def system(self) -> System:
        whole = System({})
        for part in self._every(self._config.used_policies, lambda _, proxy: proxy.system()).values():
            whole.add(part)
        return whole

    def leave(self) -> None:
        """The run is asked to stop: wait for nobody outside any longer."""
        self._left.set()

    def close(self) -> None:
        """End what goes on in the background."""
        if self._collector is not None:
            self._collector.close()
            self._collector = None
        if self._tokenizers:  # it was started
            self._player.close()
        if self._gateway is not None:
            self._gateway.close()
            self._gateway = None

    def _open_gateway(self) -> dict[str, str] | None:
        """Start the server that agents of one's own talk to, if they play; its address and what opens it."""
        section = self._config.workflow
        if isinstance(section, RolloutBuffer) and section.engine_url == POLICIES:
            section = Agent()  # its generator asks the same server
        if not isinstance(section, Agent):
            return None
        from workers.gateway.gateway import Gateway  # only runs of such agents need a web server

        threads = len(self._proxies) if self._side_by_side else 1
        self._gateway = Gateway(section, self._tokenizers, threads=threads)
        return {"url": self._gateway.start(), "token": self._gateway.token}

    def _every(
        self, policies: Iterable[str], call: Callable[[str, PolicyProxy], Answered]
    ) -> dict[str, Answered]:
        """Call the ports of these policies, at the same time where they are processes of their own.

        The first error is raised when all have answered.
        """
        names = list(policies)
        if not self._side_by_side or len(names) <= 1:
            return {name: call(name, self._proxies[name]) for name in names}
        with ThreadPoolExecutor(max_workers=len(names)) as threads:
            futures = {name: threads.submit(call, name, self._proxies[name]) for name in names}
        return {name: future.result() for name, future in futures.items()}

    def _collected(
        self,
        episodes: list[Episode],
        kept: list[Episode],
        spans: list[Span],
        seconds: float,
        ahead: Ahead | None = None,
    ) -> Collected:
        documents = [
            episode_document(episode, self._versions | oldest_versions(episode), self._spell)
            for episode in kept
        ]
        figures = dict(self._player.outside.figures) if self._player.outside is not None else {}
        facts = [episode_facts(episode) for episode in episodes]
        return Collected(facts, documents, spans, seconds, ahead, figures)

    def _spell(self, policy: str, ids: Sequence[int]) -> list[str]:
        known = self._texts.setdefault(policy, {})
        for number in ids:
            if number not in known:
                known[number] = self._tokenizers[policy].decode([number])
        return [known[number] for number in ids]

"""Rollouts: training episodes, played on request or taken from the collector, and evaluation episodes.

The collector plays training tasks in the background. Threads play waves of tasks as fast as the bound on staleness allows (see
training_core.llm.serving.admission), while the loop updates the policies. All episodes of a task are accepted or rejected together.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from training_core.config.rollout import WHOLE_EPISODES
from training_core.config.run import RunConfig
from training_core.errors import TroupeError
from training_core.llm.external.source import read_external, save_external
from training_core.llm.learning.training_groups import is_informative
from training_core.llm.serving.admission import TaskQueue
from training_core.llm.workflows.context import RolloutContext
from training_core.types import Episode
from training_core.versions import episode_age
from workers.actors.player import Played, Player
from workers.protocol import Ahead, EpisodeKind, Span


class Rollouts:
    """Plays with a player and, in the asynchronous loop, owns the collector."""

    def __init__(self, config: RunConfig, player: Player) -> None:
        self._config = config
        self._player = player
        self.waiting = player.waiting
        """The wait for outside programs."""
        self._collector: Collector | None = None
        self._external_before: dict[str, Any] | None = None
        """During a collection: the state of external rollouts after the last completed iteration, for checkpoints."""

    @property
    def figures(self) -> dict[str, float]:
        """Metrics of external rollouts; empty for other workflows."""
        return dict(self._player.external.figures) if self._player.external is not None else {}

    def play_ahead(
        self, completed: int, versions: Mapping[str, int], admission: dict[str, Any] | None
    ) -> None:
        """Start the collector after `completed` iterations."""
        self._collector = Collector(self._config, self._player)
        self._collector.start(completed, versions, admission)

    def collect(self, iteration: int, versions: Mapping[str, int]) -> Played:
        """Play the iteration's tasks, or wait for a batch of the collector."""
        start = time.time()
        if self._collector is not None:
            batch = self._collector.take()
            episodes = [replace(episode, iteration=iteration) for episode in batch.episodes]
            queued = min((episode.started for episode in episodes), default=start)
            played = replace(batch, episodes=episodes, queued=queued)
        else:
            sampled = collect_informative(self._player, self._config, iteration, versions.__getitem__)
            played = replace(sampled, queued=start)
        return replace(played, seconds=time.time() - start)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Within the block, `save` writes the state of external rollouts as it was before the block."""
        external = self._player.external
        self._external_before = deepcopy(external.state()) if external is not None else None
        try:
            yield
        finally:
            self._external_before = None

    def evaluate(
        self, iteration: int, kind: EpisodeKind, tasks: range, versions: Mapping[str, int]
    ) -> Played:
        """Play held-out tasks; in the asynchronous loop, in slots that training does not use."""
        first_slot = self._config.training_slots if self._collector else 0
        return self._player.evaluate(iteration, kind, tasks, versions.__getitem__, first_slot=first_slot)

    def replay_context(self, versions: Mapping[str, int]) -> RolloutContext:
        """The context of replays; in the asynchronous loop, in slots that training does not use."""
        first_slot = self._config.training_slots if self._collector else 0
        return self._player.context(0, versions.__getitem__, [], first_slot, 0)

    def published(self, iteration: int, versions: Mapping[str, int]) -> None:
        """Report a publication of weights to the collector."""
        if self._collector is not None:
            self._collector.published(iteration, versions)

    def restore(self, checkpoint: Path) -> None:
        """Load the state of external rollouts."""
        if self._player.external is not None:
            self._player.external.recall(read_external(checkpoint))

    def save(self, folder: Path) -> None:
        """Write the state of external rollouts after the last completed iteration."""
        if self._player.external is not None:
            save_external(folder, self._external_before or self._player.external.state())

    def close(self) -> None:
        """End background play and external rollouts."""
        if self._collector is not None:
            self._collector.close()
            self._collector = None
        self._player.close()


def collect_informative(
    player: Player, config: RunConfig, iteration: int, version: Callable[[str], int]
) -> Played:
    """Play rollout.tasks tasks and replace uninformative ones, up to rollout.most_tasks tasks in total.

    If too few are informative even then, the first uninformative ones complete the batch.
    """
    rollout = config.rollout
    if rollout.most_tasks == rollout.tasks:
        return player.train(iteration, _numbers(iteration, rollout.tasks), version)
    numbers = _numbers(iteration, rollout.most_tasks)
    first, last = numbers.start, numbers.stop
    informative: list[Episode] = []
    uninformative: list[list[Episode]] = []
    spans: list[Span] = []
    missing, begun = rollout.tasks, first
    while missing and begun < last:
        tasks = range(begun, min(begun + missing, last))
        played = player.train(iteration, tasks, version, episode=(begun - first) * rollout.group_size)
        spans.extend(played.spans)
        for episodes in by_task(played.episodes):
            if is_informative(episodes, config):
                informative.extend(episodes)
                missing -= 1
            else:
                uninformative.append(episodes)
        begun = tasks.stop
    fill = uninformative[:missing]
    filled = [episode for episodes in fill for episode in episodes]
    return Played([*informative, *filled], spans, left_out=len(uninformative) - len(fill))


def _numbers(iteration: int, tasks: int) -> range:
    return range((iteration - 1) * tasks, iteration * tasks)


def by_task(episodes: Sequence[Episode]) -> list[list[Episode]]:
    """Group episodes by task, in order."""
    tasks: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        tasks[episode.task].append(episode)
    return list(tasks.values())


class CollectorClosed(TroupeError):
    """The collector was closed while a wave was being played; the wave is discarded."""


class Collector:
    """Owns the threads, the finished tasks and the admission. Its public methods are called by the loop."""

    def __init__(self, config: RunConfig, player: Player) -> None:
        self._config = config
        self._player = player
        self._admission = TaskQueue(config.rollout, config.run.iterations)
        self._changed = threading.Condition()
        self._finished: dict[int, list[Episode]] = {}
        """Accepted tasks that were not taken yet, by number."""
        self._spans: list[Span] = []
        self._completed = 0
        self._versions: dict[str, int] = {}
        self._rejected = 0
        self._failure: BaseException | None = None
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._since = 0.0

    def start(self, completed: int, versions: Mapping[str, int], admission: dict[str, Any] | None) -> None:
        """Start to play after `completed` iterations."""
        self._completed, self._versions, self._since = completed, dict(versions), time.time()
        self._admission.restore(completed, admission)
        for index in range(self._config.rollout.waves):
            thread = threading.Thread(target=self._work, args=(index,), name=f"wave-{index}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def take(self) -> Played:
        """Wait for rollout.tasks accepted tasks that are not too old, oldest first. Raises what a thread raised."""
        count = self._config.rollout.tasks
        with self._changed:
            while True:
                if self._failure is not None:
                    raise self._failure
                self._reject_old()
                if len(self._finished) >= count:
                    break
                self._changed.wait()
            tasks = sorted(self._finished)[:count]
            self._admission.learn(tasks)
            return self._batch([episode for task in tasks for episode in self._finished.pop(task)])

    @property
    def waiting(self) -> int:
        """Number of accepted tasks that were not taken yet."""
        with self._changed:
            return len(self._finished)

    def published(self, completed: int, versions: Mapping[str, int]) -> None:
        """Update the number of completed iterations and the policies' versions, which may admit more tasks."""
        with self._changed:
            self._completed, self._versions = completed, dict(versions)
            self._changed.notify_all()

    def close(self) -> None:
        """End the threads; waves that are being played end at their next generation."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _batch(self, episodes: list[Episode]) -> Played:
        now = time.time()
        spans, self._spans = self._spans, []
        rejected, self._rejected = self._rejected, 0
        seconds, self._since = now - self._since, now
        ahead = Ahead(seconds, rejected, len(self._finished), self._admission.state())
        return Played(episodes, spans, ahead=ahead)

    def _reject_old(self) -> None:
        """Reject finished tasks whose oldest token is older than the bound."""
        bound = self._config.rollout.staleness
        old = [
            task
            for task, episodes in self._finished.items()
            if any(episode_age(episode, self._versions) > bound for episode in episodes)
        ]
        for task in old:
            del self._finished[task]
        if old:
            self._admission.reject(old)
            self._rejected += len(old)
            self._changed.notify_all()

    def _work(self, index: int) -> None:
        """Run a thread: play wave after wave in the same environment slots."""
        try:
            while tasks := self._next():
                self._accept(tasks, self._play(index, tasks))
        except CollectorClosed:
            return
        except BaseException as error:  # `take` raises it in the loop
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _next(self) -> list[int]:
        """Wait for tasks that may begin; empty after the collector was closed or a thread failed."""
        with self._changed:
            while not self._closed and self._failure is None:
                tasks = self._admission.begin(self._completed)
                if tasks:
                    return tasks
                self._changed.wait()
            return []

    def _play(self, index: int, tasks: list[int]) -> Played:
        rollout, workflow = self._config.rollout, self._config.workflow
        episodes = rollout.group_size if isinstance(workflow, WHOLE_EPISODES) else 1
        iteration, offset = divmod(tasks[0], rollout.tasks)
        return self._player.train(
            iteration + 1,
            tasks,
            self._version,
            first_slot=index * rollout.wave_tasks * self._config.slots_per_task,
            episode=offset * episodes,
        )

    def _version(self, policy: str) -> int:
        """The version to generate with, requested before every generation. Raises CollectorClosed."""
        if self._closed:
            raise CollectorClosed("the run is over")
        return self._versions[policy]

    def _accept(self, tasks: list[int], played: Played) -> None:
        """Sort a wave's episodes by task and accept them."""
        count = len(played.episodes) // len(tasks)
        by_task: dict[int, list[Episode]] = defaultdict(list)
        for index, episode in enumerate(played.episodes):
            by_task[tasks[index // count]].append(episode)
        with self._changed:
            self._finished.update(by_task)
            self._spans.extend(played.spans)
            self._admission.accept(tasks)
            self._changed.notify_all()

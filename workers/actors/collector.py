"""Collector: plays training tasks in the background, and hands over batches of what was finished.

Threads play waves of tasks as fast as the bound on staleness lets them begin (see workers.transfer.admission), while
the loop updates the policies. A task's episodes stay together: it is accepted, or rejected, as a whole.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.rollout import WHOLE_EPISODES
from training_core.config.run import RunConfig
from training_core.errors import TroupeError
from training_core.types import Episode
from training_core.versions import episode_age
from workers.actors.player import Played, Player
from workers.protocol.records import Ahead, Span
from workers.transfer.admission import Admission


class Halted(TroupeError):
    """The collector was closed while this wave was in play; what it had played is given up."""


@dataclass(frozen=True)
class Batch:
    """What is learnt from in one iteration, in the order of its tasks."""

    episodes: list[Episode]
    spans: list[Span]
    """Of all play since the last batch, whichever batch it was for."""
    ahead: Ahead


class Collector:
    """Owns the threads, what they have finished, and the count of what may begin. All public methods are the loop's."""

    def __init__(self, config: RunConfig, player: Player) -> None:
        self._config = config
        self._player = player
        self._admission = Admission(config.rollout, config.run.iterations)
        self._changed = threading.Condition()
        self._finished: dict[int, list[Episode]] = {}
        """Accepted and not yet handed over, by task."""
        self._spans: list[Span] = []
        self._completed = 0
        self._versions: dict[str, int] = {}
        self._rejected = 0
        self._failure: BaseException | None = None
        self._paused = self._closed = False
        self._threads: list[threading.Thread] = []
        self._since = 0.0

    def start(self, completed: int, versions: Mapping[str, int], admission: dict[str, Any] | None) -> None:
        """Begin to play, after so many completed iterations."""
        self._completed, self._versions, self._since = completed, dict(versions), time.time()
        self._admission.restore(completed, admission)
        for place in range(self._config.rollout.waves):
            thread = threading.Thread(target=self._work, args=(place,), name=f"wave-{place}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def take(self) -> Batch:
        """Wait for rollout.tasks accepted tasks that are young enough, oldest first. Raises what play raised."""
        wanted = self._config.rollout.tasks
        with self._changed:
            while True:
                if self._failure is not None:
                    raise self._failure
                self._refuse_old()
                if len(self._finished) >= wanted:
                    break
                self._changed.wait()
            tasks = sorted(self._finished)[:wanted]
            self._admission.learn(tasks)
            return self._handed([episode for task in tasks for episode in self._finished.pop(task)])

    @property
    def waiting(self) -> int:
        """Finished tasks that have not been handed over."""
        with self._changed:
            return len(self._finished)

    def published(self, completed: int, versions: Mapping[str, int]) -> None:
        """So many iterations are completed, and the policies are at these versions: more may begin."""
        with self._changed:
            self._completed, self._versions = completed, dict(versions)
            self._changed.notify_all()

    def pause(self) -> None:
        """Begin nothing more; what is in play goes on."""
        with self._changed:
            self._paused = True

    def resume(self) -> None:
        """Begin again what may begin."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def close(self) -> None:
        """End the threads; waves in play are given up at their next word."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _handed(self, episodes: list[Episode]) -> Batch:
        now = time.time()
        spans, self._spans = self._spans, []
        rejected, self._rejected = self._rejected, 0
        seconds, self._since = now - self._since, now
        ahead = Ahead(seconds, rejected, len(self._finished), self._admission.state())
        return Batch(episodes, spans, ahead)

    def _refuse_old(self) -> None:
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

    def _work(self, place: int) -> None:
        """A thread's life: wave after wave, each in the same slots."""
        try:
            while tasks := self._next():
                self._keep(tasks, self._play(place, tasks))
        except Halted:
            return
        except BaseException as error:  # told to the loop, which raises it
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _next(self) -> list[int]:
        """Tasks that may begin, as soon as some may; none when all is over."""
        with self._changed:
            while not self._closed and self._failure is None:
                tasks = [] if self._paused else self._admission.begin(self._completed)
                if tasks:
                    return tasks
                self._changed.wait()
            return []

    def _play(self, place: int, tasks: list[int]) -> Played:
        rollout = self._config.rollout
        count = rollout.group_size if isinstance(self._config.workflow, WHOLE_EPISODES) else 1
        iteration, offset = divmod(tasks[0], rollout.tasks)
        return self._player.train(
            iteration + 1,
            tasks,
            self._version,
            first_slot=place * rollout.wave_tasks * count,
            episode=offset * count,
        )

    def _version(self, policy: str) -> int:
        """The version to speak with, asked before every word. Raises Halted."""
        if self._closed:
            raise Halted("the run is over")
        return self._versions[policy]

    def _keep(self, tasks: list[int], played: Played) -> None:
        """Sort a wave's episodes by task and accept them."""
        count = len(played.episodes) // len(tasks)
        by_task: dict[int, list[Episode]] = defaultdict(list)
        for place, episode in enumerate(played.episodes):
            by_task[tasks[place // count]].append(episode)
        with self._changed:
            self._finished.update(by_task)
            self._spans.extend(played.spans)
            self._admission.accept(tasks)
            self._changed.notify_all()

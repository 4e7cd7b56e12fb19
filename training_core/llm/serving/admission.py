"""Admission of tasks, so that no data becomes older than the bound on staleness. Pure bookkeeping.

The rule is AReaL's (arXiv 2505.24298, section 5.1):

    capacity = min(max_concurrent - running, (staleness + version + 1) * batch - (accepted + running))

`accepted` counts tasks whose data was or will be trained on, `running` those being played; `batch` is the number of
tasks per version. With staleness 0 all data is sampled by the version that is trained on it. A rejected task counts as
neither: another takes its place. Evaluation is not counted.
"""

from collections.abc import Iterable
from typing import Any

from training_core.config.rollout import Rollout


class Admission:
    """Which tasks are being played, and how many were accepted."""

    def __init__(self, staleness: int | None, batch: int, max_concurrent: int) -> None:
        """`staleness` is in versions; None sets no bound."""
        self._staleness = staleness
        self._batch = batch
        self._max_concurrent = max_concurrent
        self.running: set[int] = set()
        self.accepted = 0

    def room(self, version: int) -> int:
        """Number of tasks that may start with this version of the weights; negative while more are running than allowed."""
        running = len(self.running)
        room = self._max_concurrent - running
        if self._staleness is None:
            return room
        return min(room, (self._staleness + version + 1) * self._batch - (self.accepted + running))

    def start(self, tasks: Iterable[int]) -> None:
        """Mark tasks as being played."""
        self.running.update(tasks)

    def accept(self, tasks: Iterable[int]) -> None:
        """Mark played tasks as accepted for training."""
        done = set(tasks)
        self.running -= done
        self.accepted += len(done)

    def reject(self, tasks: Iterable[int]) -> None:
        """Drop running tasks; others may start instead."""
        self.running -= set(tasks)


class TaskQueue(Admission):
    """Tasks of a run by number, from 0: which have begun, which were accepted, which must be played again.

    Task t belongs to iteration t // rollout.tasks + 1, on which its noise depends: with staleness 0 and no rejections
    each iteration learns from its own tasks, as in the synchronous loop.
    """

    def __init__(self, rollout: Rollout, iterations: int) -> None:
        super().__init__(rollout.staleness, rollout.publish_every * rollout.tasks, rollout.concurrency)
        self._rollout = rollout
        self._last = iterations * rollout.tasks
        self._waiting: set[int] = set()
        """Tasks accepted and not yet trained on."""
        self._next = 0
        self._again: list[int] = []
        """Tasks that an earlier attempt began without training on them: these come first."""

    def restore(self, iteration: int, state: dict[str, Any] | None) -> None:
        """Continue after `iteration` completed iterations with the `state()` of then, if it was stored.

        Without it (an earlier synchronous run), or with another batch size (a fork), each iteration counts as one batch.
        """
        expected = iteration * self._rollout.tasks
        if state is None or state["tasks"] != self._rollout.tasks:
            state = {"accepted": expected, "next": expected, "again": []}
        self.accepted, self._next, self._again = state["accepted"], state["next"], sorted(state["again"])

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint. Tasks that were begun and not trained on are lost with the attempt, and begin again."""
        return {
            "tasks": self._rollout.tasks,
            "accepted": self.accepted - len(self._waiting),
            "next": self._next,
            "again": sorted({*self._again, *self.running, *self._waiting}),
        }

    def left(self, iteration: int) -> int:
        """Number of tasks that may begin after `iteration` completed iterations; none beyond the run's last iteration."""
        version = iteration // self._rollout.publish_every
        return min(self.room(version), self._last - self.accepted - len(self.running))

    def begin(self, iteration: int) -> list[int]:
        """The next tasks to play together: consecutive tasks of one iteration, a full wave unless no other is being played.

        Empty while there is no room.
        """
        room = min(self.left(iteration), self._rollout.wave_tasks)
        if room <= 0 or (room < self._rollout.wave_tasks and self.running):
            return []
        first = self._again[0] if self._again else self._next
        tasks = [first]
        while len(tasks) < room and self._follows(tasks[-1] + 1):
            tasks.append(tasks[-1] + 1)
        self._again = [task for task in self._again if task > tasks[-1]]
        self._next = max(self._next, tasks[-1] + 1)
        self.start(tasks)
        return tasks

    def accept(self, tasks: Iterable[int]) -> None:
        """Count tasks as accepted; their iteration may still wait for others."""
        done = set(tasks)
        super().accept(done)
        self._waiting |= done

    def reject(self, tasks: Iterable[int]) -> None:
        """Drop running or accepted tasks; others may begin instead."""
        rejected = set(tasks)
        self.accepted -= len(self._waiting & rejected)
        self._waiting -= rejected
        super().reject(rejected)

    def learn(self, tasks: Iterable[int]) -> None:
        """Mark accepted tasks as trained on."""
        self._waiting -= set(tasks)

    def _follows(self, task: int) -> bool:
        """Whether a wave that ends with the previous task may also contain this one."""
        begins_iteration = task % self._rollout.tasks == 0
        available = task in self._again if self._again else True
        return available and not begins_iteration

"""Which tasks may begin, so that no data grows older than `rollout.staleness` publications. Pure bookkeeping.

The rule is AReaL's (arXiv 2505.24298, section 5.1), counted in tasks:

    capacity = min(max_concurrent - running, (staleness + version + 1) * batch - (accepted + running))

`accepted` are tasks whose data was or will be learnt from, `running` those in play; `batch` is what one version learns
from. A task that is rejected counts as neither: its place goes to another. Evaluation is not counted.
"""

from collections.abc import Iterable
from typing import Any

from training_core.algorithms.staleness import capacity
from training_core.config.rollout import Rollout


class Admission:
    """Tasks of a run by number, from 0: which have begun, which were accepted, which must be played once more.

    Task t belongs to iteration t // rollout.tasks + 1, on which its noise depends: with staleness 0 and no rejections
    each iteration learns from its own tasks, as in the synchronous loop.
    """

    def __init__(self, rollout: Rollout, iterations: int) -> None:
        self._rollout = rollout
        self._last = iterations * rollout.tasks
        self.running: set[int] = set()
        self.accepted = 0
        self._waiting: set[int] = set()
        """Accepted, and not yet learnt from."""
        self._next = 0
        self._again: list[int] = []
        """Begun by an earlier attempt, and not learnt from: these come first."""

    def restore(self, iteration: int, state: dict[str, Any] | None) -> None:
        """Go on after so many iterations; `state` as `self.state()` was then, if it was kept.

        Without it (an earlier synchronous run), or under another batch size (a fork), each iteration counts as one batch.
        """
        usual = iteration * self._rollout.tasks
        if state is None or state["tasks"] != self._rollout.tasks:
            state = {"accepted": usual, "next": usual, "again": []}
        self.accepted, self._next, self._again = state["accepted"], state["next"], sorted(state["again"])

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: what was begun and not learnt from is lost with the attempt, and begins again."""
        return {
            "tasks": self._rollout.tasks,
            "accepted": self.accepted - len(self._waiting),
            "next": self._next,
            "again": sorted({*self._again, *self.running, *self._waiting}),
        }

    def room(self, iteration: int) -> int:
        """Tasks that may begin after so many completed iterations; none beyond what the run will learn from."""
        interval = self._rollout.publish_every
        allowed = capacity(
            staleness=self._rollout.staleness,
            version=iteration // interval,
            batch=interval * self._rollout.tasks,
            accepted=self.accepted,
            running=len(self.running),
            max_concurrent=self._rollout.concurrency,
        )
        return min(allowed, self._last - self.accepted - len(self.running))

    def begin(self, iteration: int) -> list[int]:
        """The next tasks to play together: neighbours of one iteration, a whole wave unless nothing else is in play.

        Empty while there is no room.
        """
        room = min(self.room(iteration), self._rollout.wave_tasks)
        if room <= 0 or (room < self._rollout.wave_tasks and self.running):
            return []
        first = self._again[0] if self._again else self._next
        tasks = [first]
        while len(tasks) < room and self._follows(tasks[-1] + 1):
            tasks.append(tasks[-1] + 1)
        self._again = [task for task in self._again if task > tasks[-1]]
        self._next = max(self._next, tasks[-1] + 1)
        self.running.update(tasks)
        return tasks

    def accept(self, tasks: Iterable[int]) -> None:
        """These were played, and will be learnt from."""
        done = set(tasks)
        self.running -= done
        self._waiting |= done
        self.accepted += len(done)

    def reject(self, tasks: Iterable[int]) -> None:
        """These are not learnt from, in play or accepted before: others may begin in their place."""
        gone = set(tasks)
        self.accepted -= len(self._waiting & gone)
        self._waiting -= gone
        self.running -= gone

    def learn(self, tasks: Iterable[int]) -> None:
        """These accepted tasks are learnt from now."""
        self._waiting -= set(tasks)

    def _follows(self, task: int) -> bool:
        """Whether a wave that has come to the task before may take this one too."""
        begins_iteration = task % self._rollout.tasks == 0
        there = task in self._again if self._again else True
        return there and not begins_iteration

"""Waiting times of lanes: how long each waited, and for which other lane."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from webapp.timeline.spans import Lane

NOBODY = ""
"""Awaited when no lane worked: unreported work, startup and shutdown."""
MOST_CELLS = 8_000_000
"""Maximum of intervals times lanes; beyond it, waits between lanes are not computed."""


@dataclass(frozen=True)
class Wait:
    """The time one lane waited while others worked."""

    waiter: str
    awaited: str
    """Another lane's label, or NOBODY."""
    seconds: float


@dataclass(frozen=True)
class IterationWait:
    """The share of an iteration that each lane waited."""

    iteration: int
    start: float
    end: float
    shares: dict[str, float]
    """Lane's label -> share of the iteration's time, 0 to 1."""

    @property
    def mean(self) -> float:
        """Mean over the lanes."""
        return sum(self.shares.values()) / len(self.shares) if self.shares else 0.0


def waits_by_iteration(lanes: Sequence[Lane]) -> list[IterationWait]:
    """Return the share of waiting by lane for every iteration, from its first span's start to its last one's end.

    The driver is omitted: it mostly waits for the workers.
    """
    bounds: dict[int, tuple[float, float]] = {}
    for lane in lanes:
        for span in lane.spans:
            start, end = bounds.get(span.iteration, (span.start, span.end))
            bounds[span.iteration] = (min(start, span.start), max(end, span.end))
    workers = working(lanes)
    return [
        IterationWait(
            iteration,
            start,
            end,
            {lane.label: lane.waited(start, end) / (end - start) for lane in workers} if end > start else {},
        )
        for iteration, (start, end) in sorted(bounds.items())
    ]


def who_waits(lanes: Sequence[Lane], start: float, end: float) -> list[Wait]:
    """Return the seconds that each lane waited while others worked, longest first.

    An interval in which several others work is split evenly among them; an idle one is attributed to NOBODY. Other lanes
    may wait for the driver (while it writes a checkpoint), but its own waits are not counted.
    """
    covered = [lane.covered(start, end) for lane in lanes]
    marks = [start, end, *(moment for stretches in covered for stretch in stretches for moment in stretch)]
    moments = np.unique(np.array(marks, dtype=float))
    if not lanes or len(moments) < 2 or len(moments) * len(lanes) > MOST_CELLS:
        return []
    busy = np.zeros((len(moments) - 1, len(lanes)))
    for column, stretches in enumerate(covered):
        for first, last in stretches:
            busy[np.searchsorted(moments, first) : np.searchsorted(moments, last), column] = 1.0
    waiters = {lane.label for lane in working(lanes)}
    waits = _waits([lane.label for lane in lanes], busy, np.diff(moments))
    return [wait for wait in waits if wait.waiter in waiters]


def working(lanes: Sequence[Lane]) -> list[Lane]:
    """Return all lanes except the driver's; the driver's only if there is no other."""
    return [lane for lane in lanes if lane.worker != "driver"] or list(lanes)


def _waits(labels: Sequence[str], busy: NDArray[np.float64], lengths: NDArray[np.float64]) -> list[Wait]:
    """`busy` [moments, lanes] is 1 where a lane works, `lengths` [moments] in seconds."""
    at_work = busy.sum(axis=1)
    portion = np.divide(lengths, at_work, out=np.zeros_like(lengths), where=at_work > 0)
    idle = 1.0 - busy
    for_whom = idle.T @ (busy * portion[:, None])
    for_nobody = idle.T @ np.where(at_work == 0, lengths, 0.0)
    waits = [
        Wait(waiter, awaited, float(for_whom[row, column]))
        for row, waiter in enumerate(labels)
        for column, awaited in enumerate(labels)
    ]
    waits += [Wait(waiter, NOBODY, float(for_nobody[row])) for row, waiter in enumerate(labels)]
    return sorted((wait for wait in waits if wait.seconds > 1e-9), key=lambda wait: -wait.seconds)

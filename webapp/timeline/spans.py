"""Spans of work and their lanes: model FLOPs per second, waits of each lane and for which other lane."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from troupe_client.documents.timeline import IterationWait, LaneWait, PhaseCompute

MOST_CELLS = 8_000_000
"""Maximum of intervals times lanes; beyond it, waits between lanes are not computed."""
UNITS = ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"))


class LaneSpan(NamedTuple):
    """An interval of one worker's time; seconds since the epoch."""

    phase: str
    iteration: int
    start: float
    end: float
    flops: float | None = None
    """Model FLOPs, if they are counted."""
    peak: float | None = None
    """Peak FLOP/s of the worker's device, if known."""


@dataclass
class Lane:
    """The work of one worker for one policy (none: the driver), in order of time."""

    worker: str
    policy: str
    spans: list[LaneSpan] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Worker and policy; the policy is omitted if it is part of the worker's name."""
        policy_named = not self.policy or f"-{self.policy}-" in f"-{self.worker}-"
        return self.worker if policy_named else f"{self.worker} {self.policy}"

    def busy(self) -> dict[str, float]:
        """Seconds by phase."""
        spent: dict[str, float] = {}
        for span in self.spans:
            spent[span.phase] = spent.get(span.phase, 0.0) + span.end - span.start
        return spent

    def covered(self, start: float, end: float) -> list[tuple[float, float]]:
        """Return disjoint intervals of the window in which the lane worked, in order; spans may overlap."""
        return union(((span.start, span.end) for span in self.spans), start, end)

    def waited(self, start: float, end: float) -> float:
        """Return the seconds of the window without a span of the lane."""
        return max(0.0, end - start - sum(last - first for first, last in self.covered(start, end)))


def union(stretches: Iterable[tuple[float, float]], start: float, end: float) -> list[tuple[float, float]]:
    """Return the intersection of the intervals with the window, in order and without overlaps."""
    covered: list[tuple[float, float]] = []
    for first, last in sorted(stretches):
        first, last = max(first, start), min(last, end)
        if last <= first:
            continue
        if covered and first <= covered[-1][1]:
            covered[-1] = (covered[-1][0], max(covered[-1][1], last))
        else:
            covered.append((first, last))
    return covered


def lanes_make(rows: Iterable[tuple[str, str, LaneSpan]]) -> list[Lane]:
    """Group (worker, policy, span) in order of time into lanes; the driver's first, names in natural order."""
    lanes: dict[tuple[str, str], Lane] = {}
    for worker, policy, span in rows:
        lanes.setdefault((worker, policy), Lane(worker, policy)).spans.append(span)
    return [
        lanes[key] for key in sorted(lanes, key=lambda key: (key[0] != "driver", _natural(key[0]), key[1]))
    ]


def lanes_thin(lanes: Sequence[Lane], most: int, seconds: float) -> bool:
    """Merge neighbours of a lane and phase until about `most` spans are left; returns whether any were merged.

    Merged spans are closer than the picture's resolution: first 1/2000 of the window, then twice as far, and so on.
    """
    gap, joined = seconds / 2000, False
    while sum(len(lane.spans) for lane in lanes) > most and gap <= seconds:
        for lane in lanes:
            lane.spans = _joined(lane.spans, gap)
        gap, joined = gap * 2, True
    return joined


def _joined(spans: Sequence[LaneSpan], gap: float) -> list[LaneSpan]:
    merged: list[LaneSpan] = []
    last: dict[str, int] = {}
    for span in spans:
        index = last.get(span.phase)
        if index is not None and span.start - merged[index].end < gap:
            before = merged[index]
            flops = None if before.flops is None or span.flops is None else before.flops + span.flops
            merged[index] = before._replace(end=max(before.end, span.end), flops=flops)
        else:
            last[span.phase] = len(merged)
            merged.append(span)
    return merged


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key that orders worker-2 before worker-10."""
    return [
        (int(digits), "") if digits else (-1, letter) for digits, letter in re.findall(r"(\d+)|(\D)", name)
    ]


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
    waits = []
    for iteration, (start, end) in sorted(bounds.items()):
        waited = {lane.label: lane.waited(start, end) / (end - start) for lane in workers if end > start}
        mean = fmean(waited.values()) if waited else 0.0
        waits.append(IterationWait(iteration=iteration, start=start, end=end, shares=waited, mean=mean))
    return waits


def who_waits(lanes: Sequence[Lane], start: float, end: float) -> list[LaneWait]:
    """Return the seconds that each lane waited while others worked, longest first.

    An interval in which several others work is split evenly among them; an idle one is attributed to nobody. Other lanes
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


def _waits(labels: Sequence[str], busy: NDArray[np.float64], lengths: NDArray[np.float64]) -> list[LaneWait]:
    """`busy` [moments, lanes] is 1 where a lane works, `lengths` [moments] in seconds."""
    at_work = busy.sum(axis=1)
    portion = np.divide(lengths, at_work, out=np.zeros_like(lengths), where=at_work > 0)
    idle = 1.0 - busy
    for_whom = idle.T @ (busy * portion[:, None])
    for_nobody = idle.T @ np.where(at_work == 0, lengths, 0.0)
    waits = [
        LaneWait(waiter=waiter, awaited=awaited, seconds=float(for_whom[row, column]))
        for row, waiter in enumerate(labels)
        for column, awaited in enumerate(labels)
    ]
    waits += [
        LaneWait(waiter=waiter, awaited=None, seconds=float(for_nobody[row]))
        for row, waiter in enumerate(labels)
    ]
    return sorted((wait for wait in waits if wait.seconds > 1e-9), key=lambda wait: -wait.seconds)


def compute_by_phase(spans: Iterable[LaneSpan]) -> dict[str, PhaseCompute]:
    """Return the figures of phases with counted FLOPs."""
    counted: dict[str, list[LaneSpan]] = {}
    for span in spans:
        if span.flops is not None:
            counted.setdefault(span.phase, []).append(span)
    return {phase: _compute(some) for phase, some in counted.items()}


def _compute(spans: Sequence[LaneSpan]) -> PhaseCompute:
    flops, seconds = sum(span.flops or 0.0 for span in spans), sum(span.end - span.start for span in spans)
    possible = sum((span.end - span.start) * (span.peak or 0.0) for span in spans)
    known = possible and all(span.peak is not None for span in spans)
    rate = flops / seconds if seconds > 0 else 0.0
    return PhaseCompute(flops_per_second=rate, mfu=flops / possible if known else None)


def compute_shown(compute: PhaseCompute) -> str:
    """Return text: "41.0% MFU, 405 TFLOP/s" or "2.3 GFLOP/s, peak not known"."""
    rate = rate_show(compute.flops_per_second)
    return f"{rate}, peak not known" if compute.mfu is None else f"{100 * compute.mfu:.1f}% MFU, {rate}"


def rate_show(rate: float) -> str:
    """Return FLOPs per second with a unit: "12.4 GFLOP/s"."""
    size, unit = next(((size, unit) for size, unit in UNITS if rate >= size), UNITS[-1])
    return f"{rate / size:.3g} {unit}"
